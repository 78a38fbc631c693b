// A trial's report of some seconds of work, as one line of JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "stoker/records/account.h"
#include "stoker/records/stages.h"

namespace stoker {

struct Measurement {
    std::int64_t images = 0;
    std::int64_t steps = 0;
    double seconds = 0;
    double cpu_seconds = 0;                         // of the process, all threads
    double peak_rss_mb = 0;                         // since the trial began
    std::optional<std::int64_t> device_bytes = {};  // peak of LibTorch's allocator
    StepRecord host = {};                           // the training thread, by phase
    StageTimes workers = {};                        // summed over the loader's workers
    std::int64_t cached_bytes = 0;                  // in the loader's cache, at the end

    double rate() const { return seconds > 0 ? static_cast<double>(images) / seconds : 0; }
};

// The facts of a trial, in its first line.
struct TrialFacts {
    std::string device = "cpu";
    std::int64_t samples = 0;        // of the training data
    std::int64_t trial_samples = 0;  // of them, those that the trial uses
    std::int64_t data_bytes = 0;     // stored
    int workers = 0;
    int threads = 1;
    double cores = 1;
    std::string format = {};    // "image_folder", ...
    std::string codec = {};     // of packed data in which all samples have the same
    std::string compiled = {};  // as Step::compiled
    double memory_left = 0;     // bytes that the process may allocate still
};

// The seconds of a measurement, at least `least`, that holds a few whole steps.
double slice_of(const Measurement& measured, double least);

std::string to_json(const Measurement& measurement);
std::string to_json(const TrialFacts& facts);
// Throw InternalError for text that `to_json` did not write.
Measurement parse_measurement(const std::string& line);
TrialFacts parse_trial_facts(const std::string& line);

}  // namespace stoker

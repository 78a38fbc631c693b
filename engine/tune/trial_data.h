// What both kinds of trials share: opening the data, facts, and differences of counters.
#pragma once

#include <atomic>
#include <chrono>

#include "engine/tune/trial_server.h"
#include "stoker/bridge/device.h"
#include "stoker/pipeline/recipe_data.h"
#include "stoker/tune/measurement.h"

namespace stoker::cli {

// The recipe of a run that only ends when it is stopped.
Recipe endless(Recipe recipe);
// The same without what needs validation data, which open_trial_data leaves out.
Recipe trial_recipe(Recipe recipe);

// The training data, or `options.samples` of them; of a mixture all.
RecipeData open_trial_data(const TrialOptions& options);

TrialFacts facts_of(const RecipeData& data, const Loader& loader, const at::Device& device, std::string compiled);

// Steps that are not measured: caches and clocks settle, and a GPU's graph is captured in the fourth.
int warm_up_steps(const at::Device& device);

// Waits until the device has done its work.
void synchronize(const at::Device& device);

// Measures from construction (or `begin`) on.
class Stopwatch {
  public:
    Stopwatch(const Loader& loader, const at::Device& device) : loader_(loader), device_(device) {}

    void begin(const StepRecord& account = {});
    void add(std::int64_t images) {
        images_ += images;
        ++steps_;
    }
    double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
    Measurement end(const StepRecord& account = {}) const;

    // Waits until the loader has filled its ring and no thread of the process works, at most kMostRestSeconds.
    void wait_for_rest() const;
    static constexpr double kMostRestSeconds = 30;  // less than the parent waits for an answer

  private:
    using Clock = std::chrono::steady_clock;

    const Loader& loader_;
    at::Device device_;
    Clock::time_point begin_ = {};
    double cpu_seconds_ = 0;
    StepRecord account_ = {};
    StageTimes workers_ = {};
    std::int64_t images_ = 0;
    std::int64_t steps_ = 0;
};

// From now on standard output alone has the answers: what else this process prints there (ONEDNN_VERBOSE=1) is lost.
// Throws IoError.
void keep_stdout_for_answers();
void answer(const std::string& line);

}  // namespace stoker::cli

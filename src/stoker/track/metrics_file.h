// The steps and epochs of a run's metrics.jsonl (docs/runs.md). A truncated last line, as a killed process leaves it,
// is ignored; anything else that Stoker did not write is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "stoker/records/records.h"

namespace stoker {

// The figures of a step that lists and curves need: a run may have millions of steps.
struct StepLine {
    std::int64_t step = 0;   // from 1
    std::int64_t epoch = 0;  // from 1
    std::int64_t samples = 0;
    double lr = 0;                              // NaN if the line has none
    std::optional<double> loss = std::nullopt;  // NaN if it had diverged; empty if the line has none
    double seconds = 0;                         // all phases
    double wait_seconds = 0;                    // of `seconds`, the wait for the loader
};

StepLine step_line(const StepEntry& entry);

struct Metrics {
    std::vector<StepLine> steps;  // ascending; of several lines for a step, the last
    std::vector<StepLine> peaks;  // MetricLines::curves: the extremes of groups of steps; empty if none are grouped
    std::int64_t grouped_to = 0;  // the last step that a group of `steps` has
    std::vector<EpochResult> epochs;
    bool truncated = false;  // the last line, which is left out

    std::int64_t last_step() const;   // 0 if there is none
    std::int64_t last_epoch() const;  // likewise; of a run that another folder began, more than `epochs` has
};

inline constexpr std::size_t kMostCurveSteps = std::size_t{1} << 16;

enum class MetricLines {
    all,
    last_step,  // all epochs, but only the last step: ten times as fast
    curves,     // all epochs; more than kMostCurveSteps steps are grouped (StepThinner), so any run fits into 20 MB
};

// Throws IoError if the file cannot be read, and DataError for a line that is not a metric.
Metrics read_metrics(const std::filesystem::path& path, MetricLines lines = MetricLines::all);

}  // namespace stoker

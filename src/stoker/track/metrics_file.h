// Reads a run's metrics.jsonl: one line per step, one per epoch (docs/runs.md). A truncated last line, as a killed
// process leaves it, is ignored; anything else that Stoker did not write is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace stoker {

struct StepLine {
    std::int64_t step = 0;   // from 1
    std::int64_t epoch = 0;  // from 1
    std::int64_t samples = 0;
    double lr = 0;
    std::optional<double> loss = std::nullopt;  // NaN if it had diverged; empty if the line has none
    double seconds = 0;                         // all phases
    double wait_seconds = 0;                    // of `seconds`, the wait for the loader
};

// A metric of the validation data.
struct MetricValue {
    std::string tag;   // "epoch/val_map", its name in an event file (scalars.h)
    double value = 0;  // NaN if it was not a number
};

inline const std::string kMetricTag = "epoch/val_";  // before the metric's name

struct EpochLine {
    std::int64_t epoch = 0;  // from 1
    std::int64_t step = 0;   // the epoch's last
    double seconds = 0;
    double images_per_second = 0;
    double train_loss = 0;  // NaN if it had diverged
    std::optional<double> val_loss = std::nullopt;
    std::optional<double> val_accuracy = std::nullopt;  // in [0, 1]
    std::vector<MetricValue> val_metrics = {};          // of another task than classification
    std::string val_metric = {};                        // the name of the main one of them
    bool higher_is_better = true;                       // of that one
    std::int64_t bad_samples = 0;
    std::int64_t val_bad_samples = 0;
};

struct Metrics {
    std::vector<StepLine> steps;  // ascending; of several lines for a step, the last
    std::vector<StepLine> peaks;  // MetricLines::curves: the extremes of groups of steps; empty if none are grouped
    std::int64_t grouped_to = 0;  // the last step that a group of `steps` has
    std::vector<EpochLine> epochs;
    bool cut = false;  // the last line was truncated and is left out

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

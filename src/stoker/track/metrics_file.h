// Reads a run's metrics.jsonl: a line for each step, a line for each epoch (docs/runs.md). A process that was killed
// may have left half a last line, which is no error; anything else that Stoker did not write is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace stoker {

struct StepLine {
    std::int64_t step = 0;   // from 1
    std::int64_t epoch = 0;  // from 1
    std::int64_t samples = 0;
    double lr = 0;
    std::optional<double> loss = std::nullopt;  // NaN where it had diverged; empty where the line has none
    double seconds = 0;                         // of all phases
    double wait_seconds = 0;                    // of them, for the loader's batch
};

struct EpochLine {
    std::int64_t epoch = 0;  // from 1
    std::int64_t step = 0;   // its last
    double seconds = 0;
    double images_per_second = 0;
    double train_loss = 0;  // NaN where it had diverged
    std::optional<double> val_loss = std::nullopt;
    std::optional<double> val_accuracy = std::nullopt;  // share in [0, 1]
    std::int64_t bad_samples = 0;
    std::int64_t val_bad_samples = 0;
};

struct Metrics {
    std::vector<StepLine> steps;  // by step, each once: of steps told twice, the later line holds
    std::vector<EpochLine> epochs;
    bool cut = false;  // the last line was half a line, and is left out

    std::int64_t last_step() const;  // 0 where there is none
};

enum class MetricLines {
    all,
    last_step,  // epochs, and of the steps only the last: ten times as fast
};

// Throws IoError for what cannot be read, and DataError for a line that is not a run's.
Metrics read_metrics(const std::filesystem::path& path, MetricLines lines = MetricLines::all);

}  // namespace stoker

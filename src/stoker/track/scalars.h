// The TensorBoard scalars of a run, for runs that write them while training and for export from metrics.jsonl.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "stoker/track/event_file.h"
#include "stoker/track/metrics_file.h"

namespace stoker {

// train/loss (if the line has one), train/lr, train/images_per_second, train/wait (share of the step's time).
std::vector<Scalar> scalars_of(const StepLine& step);

// epoch/train_loss, epoch/val_loss, epoch/val_accuracy, epoch/val_<metric> of other tasks, epoch/images_per_second,
// epoch/seconds.
std::vector<Scalar> scalars_of(const EpochResult& epoch);

struct ExportOptions {
    std::filesystem::path folder;
    double end = 0;  // time of the last line, seconds since 1970; earlier times are computed back from it, because
                     // metrics.jsonl has durations only
    std::int64_t after = 0;  // exports only later steps; events up to this step in `folder` stay valid
};

// Writes `metrics` to a new event file, which replaces events of the same steps in earlier files of the folder. Returns
// its path.
std::filesystem::path export_events(const Metrics& metrics, const ExportOptions& options);

}  // namespace stoker

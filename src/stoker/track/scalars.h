// What TensorBoard is told of a run: one table of names, whether a run writes them while it trains or they are made
// from its metrics.jsonl afterwards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "stoker/track/event_file.h"
#include "stoker/track/metrics_file.h"

namespace stoker {

// train/loss (where the line has one), train/lr, train/images_per_second, train/wait (share of the step's time).
std::vector<Scalar> scalars_of(const StepLine& step);

// epoch/train_loss, epoch/val_loss, epoch/val_accuracy, epoch/images_per_second, epoch/seconds.
std::vector<Scalar> scalars_of(const EpochLine& epoch);

struct ExportOptions {
    std::filesystem::path folder;
    double end = 0;          // the time of the last line, seconds since 1970: metrics hold no times of day, so those of
                             // all lines are reckoned back from here
    std::int64_t after = 0;  // only steps after this one; up to it, what is in `folder` already stays
};

// Writes `metrics` to a new event file; what earlier ones of the folder tell of the same steps is void. Gives back the
// file.
std::filesystem::path export_events(const Metrics& metrics, const ExportOptions& options);

}  // namespace stoker

// What TensorBoard is told of a run: one table of names, whether a run writes them while it trains or they are made
// from its metrics.jsonl afterwards.
#pragma once

#include <filesystem>
#include <vector>

#include "stoker/track/event_file.h"
#include "stoker/track/metrics_file.h"

namespace stoker {

// train/loss (where the line has one), train/lr, train/images_per_second, train/wait (share of the step's time).
std::vector<Scalar> scalars_of(const StepMetric& step);

// epoch/train_loss, epoch/val_loss, epoch/val_accuracy, epoch/images_per_second, epoch/seconds.
std::vector<Scalar> scalars_of(const EpochMetric& epoch);

// Writes all of `metrics` to a new event file in `folder`; earlier ones there are made void. Metrics hold no times of
// day, so these are reckoned back from `end`, the time of the last line in seconds since 1970. Gives back the file.
std::filesystem::path export_events(const Metrics& metrics, const std::filesystem::path& folder, double end);

}  // namespace stoker

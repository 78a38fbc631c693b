// What a run tells of itself while it trains: a line for each step and epoch in metrics.jsonl, the same as
// TensorBoard's event files, and curves at the end, all in the run's folder.
#pragma once

#include <cstdint>

#include "stoker/track/event_file.h"
#include "stoker/train/run/run_folder.h"
#include "stoker/train/run/run_metrics.h"

namespace stoker {

class Tracker {
  public:
    // `last_step`: the one that the run goes on after; 0 for a new run. What TensorBoard has of later ones is void.
    Tracker(RunFolder& folder, std::int64_t last_step);

    void step(const StepMetric& metric, double loss);
    void epoch(const EpochResult& result, std::int64_t step);
    void flush();  // throws IoError, as do the others where much was buffered
    // Writes curves.svg from all that metrics.jsonl holds, which is flushed before.
    void draw();

  private:
    RunFolder& folder_;
    EventFile events_;
};

}  // namespace stoker

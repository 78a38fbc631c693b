// Sums steps into intervals, each with the loader's stages and the host's counters, for the records of a run.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

#include "stoker/monitor/host_counters.h"
#include "stoker/pipeline/loader.h"
#include "stoker/trace/records.h"
#include "stoker/train/run/train_result.h"

namespace stoker {

class IntervalRecorder {
  public:
    // `loader` must outlive this object.
    explicit IntervalRecorder(const Loader& loader) : loader_(loader) {}

    // Begins an interval. What has happened since the last one belongs to none.
    void begin();
    // Adds steps and the wait for their losses. Returns the interval and begins the next one if this one is long
    // enough for its counters, or if `last`.
    std::optional<IntervalEntry> add(std::span<const StepResult> steps, std::chrono::nanoseconds sync, bool last);

  private:
    const Loader& loader_;
    std::optional<HostCounters> start_;  // empty in short epochs
    bool short_ = false;                 // the interval before had no counters
    StageTimes workers_;                 // at the start
    IntervalEntry entry_;
};

}  // namespace stoker

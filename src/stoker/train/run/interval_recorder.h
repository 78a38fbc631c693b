// Sums steps into intervals, each with the loader's stages and the host's counters, for the records of a run.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "stoker/monitor/host_counters.h"
#include "stoker/pipeline/loader.h"
#include "stoker/records/records.h"
#include "stoker/train/run/device_reader.h"
#include "stoker/train/run/train_result.h"

namespace stoker {

// Belongs to the training thread.
class IntervalRecorder {
  public:
    using ReadDevice = std::function<DeviceReading()>;

    // `loader` must outlive this object.
    IntervalRecorder(const Loader& loader, ReadDevice read_device)
        : loader_(loader), read_device_(std::move(read_device)) {}

    // An epoch begins: it continues an interval that is open, or begins one. What has happened since the last one
    // belongs to none.
    void begin();
    // Adds steps and the wait for their losses, which the next step's record holds unless they end an epoch. Returns
    // the interval and begins the next one if this one is long enough for its counters, or if `last` (no step follows
    // in this epoch) and it has a step.
    std::optional<IntervalEntry> add(std::span<const StepResult> steps, std::chrono::nanoseconds sync, bool last);

  private:
    const Loader& loader_;
    ReadDevice read_device_;
    std::optional<HostCounters> start_;      // empty in short intervals
    bool short_ = false;                     // the interval before had no counters
    std::optional<std::int64_t> core_wait_;  // of the training thread, at the start
    StageTimes workers_;                     // at the start
    IntervalEntry entry_;
};

}  // namespace stoker

// The work of each thread of a loader over time, for a profiler: the pieces of batches that it prepared, and how full
// the ring was after each change.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "stoker/records/stages.h"

namespace stoker {

// Items [begin, end) of a batch, prepared by one thread.
struct WorkSpan {
    static constexpr int kTrainingThread = -1;  // the worker of a loader without workers

    int worker = 0;
    std::int64_t batch = 0;  // counted through all epochs
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::chrono::steady_clock::time_point began = {};
    std::chrono::steady_clock::time_point ended = {};
    StageTimes times = {};   // within the span
    std::int64_t ready = 0;  // finished batches in the ring at its end
};

// Finished batches in the ring at a moment.
struct RingLevel {
    std::chrono::steady_clock::time_point at = {};
    std::int64_t ready = 0;
};

// Threads of one loader write, any thread reads.
class WorkLog {
  public:
    void add(const WorkSpan& span) {
        const std::lock_guard lock(mutex_);
        spans_.push_back(span);
        levels_.push_back({.at = span.ended, .ready = span.ready});
    }
    // A batch has been taken, and `ready` are left.
    void taken(std::int64_t ready) {
        const std::lock_guard lock(mutex_);
        levels_.push_back({.at = std::chrono::steady_clock::now(), .ready = ready});
    }

    // Since the last call.
    std::vector<WorkSpan> take_spans() {
        const std::lock_guard lock(mutex_);
        return std::exchange(spans_, {});
    }
    std::vector<RingLevel> take_levels() {
        const std::lock_guard lock(mutex_);
        return std::exchange(levels_, {});
    }

  private:
    std::mutex mutex_;
    std::vector<WorkSpan> spans_;
    std::vector<RingLevel> levels_;
};

}  // namespace stoker

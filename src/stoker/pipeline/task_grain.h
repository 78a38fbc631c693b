// How many samples a worker takes at a time: few enough that all workers share a batch, and more where samples are
// prepared so fast that taking them would cost as much.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace stoker {

class TaskGrain {
  public:
    void set(std::int64_t batch, int workers) {
        batch_ = batch;
        least_ = std::clamp<std::int64_t>(batch / (4 * std::int64_t{std::max(workers, 1)}), 1, 32);
        samples_ = least_.load();
    }
    std::int64_t samples() const { return samples_; }

    // Called by a worker after a task of `samples`, which took `time`. Returns the new grain where it changes.
    std::optional<std::int64_t> adapt(std::int64_t samples, std::chrono::nanoseconds time) {
        constexpr std::chrono::microseconds kShort{20};
        constexpr std::chrono::microseconds kLong{200};
        std::int64_t grain = samples_;
        if (samples != grain) {
            return std::nullopt;  // the rest of a batch
        }
        const std::int64_t wanted = time < kShort  ? std::min(2 * grain, std::max(batch_.load(), grain))
                                    : time > kLong ? std::max(grain / 2, least_.load())
                                                   : grain;
        const bool changed = wanted != grain && samples_.compare_exchange_strong(grain, wanted);
        return changed ? std::optional(wanted) : std::nullopt;
    }

  private:
    std::atomic<std::int64_t> batch_ = 1;
    std::atomic<std::int64_t> least_ = 1;
    std::atomic<std::int64_t> samples_ = 1;
};

}  // namespace stoker

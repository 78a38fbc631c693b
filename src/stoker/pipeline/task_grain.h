// How many samples a worker takes at a time: few enough that all workers share a batch, and more where a task would be
// over after some microseconds, since then workers wait for the ring's lock more than they work.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace stoker {

class TaskGrain {
  public:
    static constexpr std::chrono::microseconds kShort{20};
    static constexpr std::chrono::microseconds kLong{200};

    explicit TaskGrain(std::int64_t least = 1) : least_(std::max<std::int64_t>(least, 1)), samples_(least_) {}

    // For `workers` that share batches of `batch` samples.
    static std::int64_t least_for(std::int64_t batch, int workers) {
        return std::clamp<std::int64_t>(batch / (4 * std::int64_t{std::max(workers, 1)}), 1, 32);
    }

    std::int64_t samples() const { return samples_; }

    // After a task of `samples` that took `time`, of a batch of `batch`: doubled where it was short, halved where long.
    void adapt(std::int64_t samples, std::int64_t batch, std::chrono::nanoseconds time) {
        if (samples == samples_ && time < kShort) {  // and not the rest of a batch
            samples_ = std::max(samples_, std::min(2 * samples_, batch));
        } else if (samples <= samples_ && time > kLong) {  // and not a task from before the grain became smaller
            samples_ = std::max(samples_ / 2, least_);
        }
    }

  private:
    std::int64_t least_;
    std::int64_t samples_;
};

}  // namespace stoker

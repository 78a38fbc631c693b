// The loader workers' time per stage of making a sample. Each worker has its own table; readers sum them.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <utility>

#include "stoker/records/accounting.h"

namespace stoker {

enum class Stage : std::uint8_t {
    read,     // bytes from the data set
    entropy,  // Huffman decoding of baseline JPEGs; other codecs do not separate it from `pixels`
    pixels,   // bytes or coefficients to pixels
    augment,  // ops, up to the sample in its batch slot
    blocked,  // waiting for a free slot or for work
};
inline constexpr std::size_t kStages = 5;

constexpr std::string_view stage_name(Stage stage) {
    constexpr std::array<std::string_view, kStages> kNames = {"read", "entropy", "pixels", "augment", "blocked"};
    return kNames[static_cast<std::size_t>(stage)];
}

struct StageTimes {
    std::array<std::chrono::nanoseconds, kStages> times{};
    std::chrono::nanoseconds cpu{};  // CPU time of the workers
    std::int64_t samples = 0;
    std::int64_t on_device = 0;  // of them, those whose images a device decodes

    std::chrono::nanoseconds& operator[](Stage stage) { return times[static_cast<std::size_t>(stage)]; }
    std::chrono::nanoseconds operator[](Stage stage) const { return times[static_cast<std::size_t>(stage)]; }
    StageTimes& operator+=(const StageTimes& other) {
        for (std::size_t i = 0; i < kStages; ++i) {
            times[i] += other.times[i];
        }
        cpu += other.cpu;
        samples += other.samples;
        on_device += other.on_device;
        return *this;
    }
    StageTimes& operator-=(const StageTimes& other) {
        for (std::size_t i = 0; i < kStages; ++i) {
            times[i] -= other.times[i];
        }
        cpu -= other.cpu;
        samples -= other.samples;
        on_device -= other.on_device;
        return *this;
    }
    // For a difference of two readings: clamps `blocked`, so that the stages sum to at most `most`, the time between
    // the readings times the workers. A worker's wait is added when it ends, long after the first reading of an
    // interval that it began before.
    void limit_blocked(std::chrono::duration<double> most) {
        auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(most);
        for (const Stage stage : {Stage::read, Stage::entropy, Stage::pixels, Stage::augment}) {
            left -= (*this)[stage];
        }
        std::chrono::nanoseconds& blocked = (*this)[Stage::blocked];
        blocked = std::clamp(blocked, std::chrono::nanoseconds{0}, std::max(left, std::chrono::nanoseconds{0}));
    }
};

using StageTime = std::chrono::steady_clock::time_point;

// Now, or no time where the account is off.
inline StageTime stage_now() {
    return accounting() ? std::chrono::steady_clock::now() : StageTime{};
}

// Zero unless both times were read.
constexpr std::chrono::nanoseconds stage_time(StageTime begin, StageTime end) {
    return begin == StageTime{} || end == StageTime{} ? std::chrono::nanoseconds{} : end - begin;
}

// Reads the clock once per stage: `lap(stage)` adds the time since the last lap to that stage. Does nothing unless
// `on`.
class StageClock {
  public:
    explicit StageClock(StageTimes& times, bool on = true) : times_(times), on_(on && accounting()) {
        if (on_) {
            since_ = std::chrono::steady_clock::now();
        }
    }
    void lap(Stage stage) {
        if (!on_ || !accounting()) {
            return;
        }
        const auto now = std::chrono::steady_clock::now();
        times_[stage] += now - since_;
        since_ = now;
    }
    // Moves time that was measured elsewhere, and lies within the last lap of `from`, to `to`.
    void move(Stage from, Stage to, std::chrono::nanoseconds time) {
        if (on_ && accounting()) {
            times_[from] -= time;
            times_[to] += time;
        }
    }

  private:
    StageTimes& times_;
    bool on_;
    StageTime since_ = {};
};

// Times few of the samples where they are so short that the clock would be felt: some 150 ns for a timed sample, at
// most 0.4 % of a worker's time. The whole time of a task is exact; the last timed samples say how the stages share it.
class StageSampler {
  public:
    // `now` is stage_now() at the task's begin: the caller has read it for its own use.
    void begin_task(StageTime now) { began_ = now; }
    // Whether the next sample is timed, by adding to `timed`.
    void next_sample() {
        ++samples_;
        on_ = --until_ < 0;
        if (on_) {
            until_ = every_ - 1;
        }
    }
    bool on() const { return on_; }
    StageTimes& timed() { return timed_; }

    // Adds the task to `times`. `now` is stage_now() at its end.
    void end_task(StageTimes& times, StageTime now) {
        const StageTimes timed = std::exchange(timed_, {});
        const std::int64_t samples = std::exchange(samples_, 0);
        times.samples += timed.samples;
        times.on_device += timed.on_device;
        if (!accounting()) {
            return;
        }
        if (sum_of(timed).count() > 0) {
            for (const Stage stage : kWork) {
                recent_[stage] = recent_[stage] / 2 + timed[stage];
            }
        }
        const std::chrono::nanoseconds sum = sum_of(recent_);
        const std::chrono::nanoseconds whole = stage_time(began_, now);
        if (sum.count() == 0 || whole.count() == 0) {
            return;
        }
        const double factor = static_cast<double>(whole.count()) / static_cast<double>(sum.count());
        for (const Stage stage : kWork) {
            const double share = factor * static_cast<double>(recent_[stage].count());
            times[stage] += std::chrono::nanoseconds(static_cast<std::int64_t>(share));
        }
        every_ = whole >= kLong * samples ? 1 : whole >= kShort * samples ? kEvery : kEveryShort;
        until_ = std::min(until_, every_ - 1);
    }

  private:
    static constexpr std::array kWork = {Stage::read, Stage::entropy, Stage::pixels, Stage::augment};
    static constexpr std::chrono::microseconds kLong{50};  // of a sample
    static constexpr std::chrono::microseconds kShort{5};
    static constexpr int kEvery = 7;  // primes: no position within a batch is timed more often than others
    static constexpr int kEveryShort = 61;

    static std::chrono::nanoseconds sum_of(const StageTimes& times) {
        std::chrono::nanoseconds sum{};
        for (const Stage stage : kWork) {
            sum += times[stage];
        }
        return sum;
    }

    StageTimes timed_;
    StageTimes recent_;  // sums of timed samples; those of earlier tasks count less and less
    StageTime began_ = {};
    std::int64_t samples_ = 0;
    int every_ = 1;
    int until_ = 0;
    bool on_ = true;
};

}  // namespace stoker

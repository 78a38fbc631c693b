// The loader workers' time per stage of making a sample. Each worker has its own table; readers sum them.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "stoker/trace/accounting.h"

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

    std::chrono::nanoseconds& operator[](Stage stage) { return times[static_cast<std::size_t>(stage)]; }
    std::chrono::nanoseconds operator[](Stage stage) const { return times[static_cast<std::size_t>(stage)]; }
    StageTimes& operator+=(const StageTimes& other) {
        for (std::size_t i = 0; i < kStages; ++i) {
            times[i] += other.times[i];
        }
        cpu += other.cpu;
        samples += other.samples;
        return *this;
    }
    StageTimes& operator-=(const StageTimes& other) {
        for (std::size_t i = 0; i < kStages; ++i) {
            times[i] -= other.times[i];
        }
        cpu -= other.cpu;
        samples -= other.samples;
        return *this;
    }
    // Of a difference of two readings: lowers `blocked`, so that the stages together take at most `most`, the time
    // between the readings times the workers. A worker's wait is added when it ends, long after the first reading of an
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

// Reads the clock once per stage: `lap(stage)` adds the time since the last lap to that stage.
class StageClock {
  public:
    explicit StageClock(StageTimes& times) : times_(times) {}
    void lap(Stage stage) {
        if (!accounting()) {
            return;
        }
        const auto now = std::chrono::steady_clock::now();
        times_[stage] += now - since_;
        since_ = now;
    }
    // Moves time that was measured elsewhere, and lies within the last lap of `from`, to `to`.
    void move(Stage from, Stage to, std::chrono::nanoseconds time) {
        times_[from] -= time;
        times_[to] += time;
    }

  private:
    StageTimes& times_;
    std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace stoker

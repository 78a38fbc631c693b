// A triangle filter of many taps as sums over intervals. Between the centres of two outputs the weights of both are
// lines, so an input is multiplied by its distance once, and both outputs take their part of the same two sums. Small
// residuals make the result exact.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stoker/ops/resize_axis.h"

namespace stoker {

// Output i is the sum of the left half of its filter, which is interval i, and of the right half, interval i + 1.
class ShrinkFilter {
  public:
    static constexpr int kTaps = 4;  // inputs of a step
    // For each interval: the sum of its inputs, that of inputs times their distance from its middle, and the residuals
    // of the weights as a left and as a right half.
    enum Sum { kInputs, kDistances, kLeft, kRight, kSums };
    static constexpr int kMostSum = 128;  // sums of two products of bytes then fit into 16 bits

    struct Step {
        std::int8_t weights[kSums][kTaps];
    };

    // A half's sum is base * sum[kInputs] + slope * sum[kDistances] + sum[kLeft or kRight]: in 32 bits, wrapped around.
    struct Half {
        std::int32_t base = 0;
        std::int32_t slope = 0;
    };
    struct Interval {
        int first = 0;  // counted from the axis' first tap
        int steps = 0;
        Half left;
        Half right;
    };

    // Returns false if the axis' weights are not lines: another filter, few taps, or too many for the sums.
    bool build(const ResizeAxis& axis);

    std::span<const Interval> intervals() const { return intervals_; }  // one more than outputs
    std::span<const Step> steps() const { return steps_; }              // those of all intervals, in order

  private:
    bool add_interval(const ResizeAxis& axis, std::size_t i, int first, int end);
    bool add_residuals(const ResizeAxis& axis, std::size_t output, Sum sum, int first, int end, Half& half);

    std::vector<Interval> intervals_;
    std::vector<Step> steps_;
};

}  // namespace stoker

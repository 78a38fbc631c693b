// Fits a line to each half of each output's weights. The differences from the line go into bytes, so the sums are exact
// for any line that is near enough.
#include "stoker/ops/shrink_filter.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace stoker {
namespace {

// The weight of input k for an output; 0 outside its taps.
std::int32_t weight_of(const ResizeAxis& axis, std::size_t output, int k) {
    const ResizeTaps taps = axis.taps[output];
    const int at = k - taps.first;
    return at >= 0 && at < taps.count
               ? axis.weights[output * static_cast<std::size_t>(axis.stride) + static_cast<std::size_t>(at)]
               : 0;
}

// The end of an output's taps. If two centres are whole numbers apart, rounding may add a tap whose weight is 0.
int end_of(const ResizeAxis& axis, std::size_t output) {
    const ResizeTaps taps = axis.taps[output];
    const int end = taps.first + taps.count;
    return weight_of(axis, output, end - 1) == 0 ? end - 1 : end;
}

// The sums of 16 bits are of inputs 0 and 1 of all steps, and of inputs 2 and 3.
bool fits(std::span<const ShrinkFilter::Step> steps, ShrinkFilter::Sum sum) {
    int lanes[2] = {};
    for (const ShrinkFilter::Step& step : steps) {
        for (int k = 0; k < ShrinkFilter::kTaps; ++k) {
            lanes[k / 2] += std::abs(int{step.weights[sum][k]});
        }
    }
    return std::max(lanes[0], lanes[1]) <= ShrinkFilter::kMostSum;
}

}  // namespace

bool ShrinkFilter::build(const ResizeAxis& axis) {
    const std::size_t outputs = axis.taps.size();
    intervals_.clear();
    steps_.clear();
    if (outputs < 2) {
        return false;
    }
    for (std::size_t i = 0; i <= outputs; ++i) {
        const int first = i < outputs ? axis.taps[i].first : end_of(axis, outputs - 2);
        const int end =
            i + 1 < outputs ? axis.taps[i + 1].first : end_of(axis, i < outputs ? outputs - 2 : outputs - 1);
        // The taps of output i - 1 begin at interval i - 1, and must end with interval i.
        if (end <= first || (i > 0 && end_of(axis, i - 1) > end) || !add_interval(axis, i, first, end)) {
            return false;
        }
    }
    return true;
}

bool ShrinkFilter::add_interval(const ResizeAxis& axis, std::size_t i, int first, int end) {
    const int count = (end - first + kTaps - 1) / kTaps;
    const std::size_t before = steps_.size();
    steps_.resize(before + static_cast<std::size_t>(count));
    std::memset(steps_.data() + before, 0, static_cast<std::size_t>(count) * sizeof(Step));
    if (end - first > kMostSum) {
        return false;
    }
    Step* steps = steps_.data() + before;
    for (int k = 0; k < end - first; ++k) {
        steps[k / kTaps].weights[kInputs][k % kTaps] = 1;
        steps[k / kTaps].weights[kDistances][k % kTaps] = static_cast<std::int8_t>(k - (end - first) / 2);
    }
    Interval interval{.first = first - axis.taps.front().first, .steps = count, .left = {}, .right = {}};
    const bool lines = (i == axis.taps.size() || add_residuals(axis, i, kLeft, first, end, interval.left)) &&
                       (i == 0 || add_residuals(axis, i - 1, kRight, first, end, interval.right));
    intervals_.push_back(interval);
    const std::span<const Step> own{steps, static_cast<std::size_t>(count)};
    return lines && fits(own, kDistances) && fits(own, kLeft) && fits(own, kRight);
}

bool ShrinkFilter::add_residuals(const ResizeAxis& axis, std::size_t output, Sum sum, int first, int end, Half& half) {
    const int count = end - first;
    const std::int32_t begin = weight_of(axis, output, first);
    const std::int32_t rise = weight_of(axis, output, end - 1) - begin;
    const int gaps = std::max(count - 1, 1);
    half.slope = (rise + (rise < 0 ? -gaps : gaps) / 2) / gaps;
    const auto residual = [&](int k) { return weight_of(axis, output, first + k) - half.slope * (k - count / 2); };
    std::int32_t low = residual(0);
    std::int32_t high = low;
    for (int k = 1; k < count; ++k) {
        low = std::min(low, residual(k));
        high = std::max(high, residual(k));
    }
    half.base = low + (high - low) / 2;
    if (high - low > 2 * kMostSum - 4) {
        return false;
    }
    Step* steps = steps_.data() + (steps_.size() - static_cast<std::size_t>((count + kTaps - 1) / kTaps));
    for (int k = 0; k < count; ++k) {
        steps[k / kTaps].weights[sum][k % kTaps] = static_cast<std::int8_t>(residual(k) - half.base);
    }
    return true;
}

}  // namespace stoker

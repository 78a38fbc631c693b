// The weights of a shrink filter's lines and residuals, put together again, are the axis' weights.
#include "stoker/ops/shrink_filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

namespace stoker {
namespace {

using Filter = ShrinkFilter;

// The weights of output `i` for all inputs of the axis, from the filter's two halves.
std::vector<std::int32_t> weights_of(const Filter& filter, std::size_t i, int inputs) {
    std::vector<std::int32_t> weights(static_cast<std::size_t>(inputs) + 2 * Filter::kTaps);
    std::size_t step = 0;
    for (std::size_t n = 0; n < filter.intervals().size(); ++n) {
        const Filter::Interval& interval = filter.intervals()[n];
        for (int k = 0; k < interval.steps * Filter::kTaps; ++k) {
            const Filter::Step& own = filter.steps()[step + static_cast<std::size_t>(k / Filter::kTaps)];
            const auto digit = [&](Filter::Sum sum) { return std::int32_t{own.weights[sum][k % Filter::kTaps]}; };
            const auto add = [&](const Filter::Half& half, Filter::Sum residual) {
                weights[static_cast<std::size_t>(interval.first + k)] +=
                    half.base * digit(Filter::kInputs) + half.slope * digit(Filter::kDistances) + digit(residual);
            };
            if (n == i) {
                add(interval.left, Filter::kLeft);
            }
            if (n == i + 1) {
                add(interval.right, Filter::kRight);
            }
        }
        step += static_cast<std::size_t>(interval.steps);
    }
    return weights;
}

TEST(ShrinkFilter, HasTheWeightsOfItsAxis) {
    for (const auto& [input, output, begin, count] :
         {std::array{900, 224, 0, 224}, std::array{4000, 224, 0, 224}, std::array{2999, 224, 17, 100},
          std::array{700, 25, 20, 5}, std::array{61, 2, 0, 2}, std::array{40, 10, 3, 4},
          std::array{6900, 224, 0, 224}}) {
        ResizeAxis axis;
        axis.build(input, output, begin, count);
        Filter filter;
        ASSERT_TRUE(filter.build(axis)) << input << " to " << output;
        for (std::size_t i = 0; i < axis.taps.size(); ++i) {
            const std::vector<std::int32_t> weights = weights_of(filter, i, axis.inputs());
            std::vector<std::int32_t> expected(weights.size());
            for (int k = 0; k < axis.taps[i].count; ++k) {
                expected[static_cast<std::size_t>(axis.taps[i].first - axis.taps.front().first + k)] =
                    axis.weights[i * static_cast<std::size_t>(axis.stride) + static_cast<std::size_t>(k)];
            }
            ASSERT_EQ(weights, expected) << "output " << i << " of " << input << " to " << output;
        }
    }
}

TEST(ShrinkFilter, KeepsItsSumsWithin16Bits) {
    for (int input = 900; input < 7000; input += 61) {
        ResizeAxis axis;
        axis.build(input, 224, 0, 224);
        Filter filter;
        ASSERT_TRUE(filter.build(axis));
        std::size_t step = 0;
        for (const Filter::Interval& interval : filter.intervals()) {
            for (int sum = 0; sum < Filter::kSums; ++sum) {
                int lanes[2] = {};
                for (int k = 0; k < interval.steps * Filter::kTaps; ++k) {
                    const Filter::Step& own = filter.steps()[step + static_cast<std::size_t>(k / Filter::kTaps)];
                    lanes[k % Filter::kTaps / 2] += 255 * std::abs(int{own.weights[sum][k % Filter::kTaps]});
                }
                ASSERT_LE(std::max(lanes[0], lanes[1]), 32767) << input;
            }
            step += static_cast<std::size_t>(interval.steps);
        }
    }
}

TEST(ShrinkFilter, RefusesWhatIsNotOfLines) {
    ResizeAxis axis;
    Filter filter;
    axis.build(900, 100, 0, 100, Interpolation::bicubic);
    EXPECT_FALSE(filter.build(axis));
    axis.build(900, 1, 0, 1);
    EXPECT_FALSE(filter.build(axis)) << "one output";
    axis.build(90000, 100, 0, 100);
    EXPECT_FALSE(filter.build(axis)) << "sums beyond 16 bits";
    axis.build(100, 300, 0, 300);
    EXPECT_FALSE(filter.build(axis)) << "an enlargement";
}

// So that tests of ShrinkRows compare two ways.
TEST(ShrinkFilter, IsBuiltForAllScalesOfShrinksMuch) {
    for (int width = 3 * 224; width < 30 * 224; width += 7) {
        ResizeAxis axis;
        axis.build(width, 224, 0, 224, Interpolation::bilinear);
        ShrinkFilter filter;
        ASSERT_TRUE(filter.build(axis)) << width;
        for (const ShrinkFilter::Interval& interval : filter.intervals()) {
            ASSERT_LE(interval.steps, ShrinkFilter::kMostSum / 2);  // the sums of two inputs a step
        }
    }
}

}  // namespace
}  // namespace stoker

// Thinned steps keep means and peaks, whatever the length of the run.
#include "stoker/track/step_thinner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace stoker {
namespace {

StepLine line(std::int64_t step, std::optional<double> loss) {
    return {.step = step, .epoch = 1, .samples = 10, .lr = 0.5, .loss = loss, .seconds = 2, .wait_seconds = 1};
}

TEST(StepThinner, ShortRunsStayAsTheyAre) {
    StepThinner thinner(8);
    for (std::int64_t step = 1; step <= 8; ++step) {
        thinner.add(line(step, 1.0 / static_cast<double>(step)));
    }
    const auto steps = thinner.means();
    ASSERT_EQ(steps.size(), 8u);
    EXPECT_EQ(steps[4].step, 5);
    EXPECT_EQ(steps[4].loss, 0.2);
    EXPECT_EQ(steps[4].seconds, 2);
    EXPECT_TRUE(thinner.peaks().empty());
}

TEST(StepThinner, LongRunsKeepTheirMeansAndPeaks) {
    constexpr std::int64_t kSteps = 100'003;
    StepThinner thinner(64);
    for (std::int64_t step = 1; step <= kSteps; ++step) {
        const double loss = step == 77'777 ? 1e6
                            : step == 5    ? -3
                            : step == 9    ? std::nan("")
                                           : static_cast<double>(1 + step % 2);
        thinner.add(line(step, loss));
    }
    const auto steps = thinner.means();
    EXPECT_LE(steps.size(), 64u);
    EXPECT_GE(steps.size(), 32u);
    std::int64_t samples = 0;
    for (std::size_t i = 1; i < steps.size(); ++i) {
        EXPECT_GT(steps[i].step, steps[i - 1].step);
    }
    for (const StepLine& step : steps) {
        samples += step.samples;
        EXPECT_EQ(step.lr, 0.5);
    }
    EXPECT_EQ(samples, 10 * kSteps);
    EXPECT_NEAR(*steps[3].loss, 1.5, 1e-3);

    const auto peaks = thinner.peaks();
    const auto value_at = [&](std::int64_t step) {
        const auto found = std::ranges::find(peaks, step, &StepLine::step);
        return found == peaks.end() ? std::nullopt : found->loss;
    };
    EXPECT_EQ(value_at(77'777), 1e6);
    EXPECT_EQ(value_at(5), -3);
    ASSERT_TRUE(value_at(9));
    EXPECT_TRUE(std::isnan(*value_at(9))) << "a gap in the line";
    EXPECT_LE(peaks.size(), 3 * 64u);
}

TEST(StepThinner, AStepThatComesAgainReplacesTheLaterOnes) {
    StepThinner thinner(8);
    for (const std::int64_t step : {1, 2, 3, 4, 3}) {
        thinner.add(line(step, std::nullopt));
    }
    ASSERT_EQ(thinner.means().size(), 3u);
    EXPECT_EQ(thinner.means().back().step, 3);
    EXPECT_FALSE(thinner.means().back().loss);
}

}  // namespace
}  // namespace stoker

// The range test: its suggestion for losses of known shape, and on digits.
#include "stoker/train/lr_range_test.h"

#include <gtest/gtest.h>

#include <cmath>

#include "stoker/base/rng.h"
#include "train/support.h"

namespace stoker {
namespace {

// Loss 2 until rate 1e-4, falls to 1 around 1e-3, stays, and grows from 1 on.
std::vector<RatePoint> course() {
    std::vector<RatePoint> points;
    for (int i = 0; i <= 60; ++i) {
        const double power = -5 + i / 10.0;  // 1e-5 to 10
        const double loss = 2 - 1 / (1 + std::exp(-8 * (power + 3))) + (power > 0 ? std::exp(5 * power) - 1 : 0);
        points.push_back({.lr = std::pow(10, power), .loss = loss, .smoothed = loss});
    }
    return points;
}

TEST(LrRangeTest, SuggestsTheSteepestDescent) {
    const std::vector<RatePoint> points = course();
    EXPECT_NEAR(std::log10(suggest_rate(points, false).value()), -3, 0.11);
    EXPECT_NEAR(std::log10(suggest_rate(points, true).value()), -3, 0.11);
    const std::vector<RatePoint> diverged(points.begin(), points.begin() + 25);  // at 10^-2.6
    EXPECT_NEAR(std::log10(suggest_rate(diverged, true).value()), -3.6, 0.01);
    const std::vector<RatePoint> rising(points.begin() + 52, points.end());
    EXPECT_FALSE(suggest_rate(rising, true));
    EXPECT_FALSE(suggest_rate({}, false));
}

// Falls a little to 1e-3, grows, and falls steeply back to where it began, as an untrained model's.
TEST(LrRangeTest, AFallFromAboveTheMinimumIsNoProgress) {
    std::vector<RatePoint> points;
    for (int i = 0; i <= 120; ++i) {
        const double power = -7 + i / 15.0;
        const double loss = power < -4     ? 1.1
                            : power < -3   ? 1.1 - 0.05 * (power + 4)
                            : power < -2   ? 1.05 + 0.45 * (power + 3)
                            : power < -1.5 ? 1.5 - 0.8 * (power + 2)
                                           : 1.1;
        points.push_back({.lr = std::pow(10, power), .loss = loss});
    }
    smooth(points);
    EXPECT_NEAR(std::log10(suggest_rate(points, false).value()), -3.5, 0.3);
}

TEST(LrRangeTest, NoiseHasNoSuggestion) {
    int suggested = 0;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        Rng rng({.seed = seed});
        std::vector<RatePoint> points;
        for (int i = 0; i < 150; ++i) {
            points.push_back({.lr = std::pow(10, -7 + i / 20.0), .loss = 1 + 0.1 * rng.uniform()});
        }
        smooth(points);
        suggested += suggest_rate(points, false) ? 1 : 0;
    }
    EXPECT_LE(suggested, 3);
}

TEST(LrRangeTest, OfDigitsDivergesAndSuggestsARateThatTrains) {
    Recipe recipe = testing::small_recipe(1);
    recipe.data.train = "synth:digits?count=256";
    recipe.data.train_ops = {};
    recipe.data.val = "10%";
    recipe.optimizer = {.name = "sgd", .lr = 1};
    recipe.train.keep_best = "val_loss";  // does nothing here
    std::int64_t steps = 0;
    const RangeTest test = lr_range_test(recipe, {.to = 1000, .steps = 120, .on_step = [&](std::int64_t done) {
                                                      steps = done;
                                                      return false;
                                                  }});
    EXPECT_TRUE(test.diverged);
    EXPECT_LT(steps, 120);
    ASSERT_TRUE(test.suggestion);
    EXPECT_GT(*test.suggestion, 1e-4);
    EXPECT_LT(*test.suggestion, 10);
    EXPECT_NEAR(test.points.front().lr, 1e-7, 1e-12);
    EXPECT_NEAR(test.points.front().smoothed, test.points.front().loss, 1e-9);
    const RangeTest stopped = lr_range_test(recipe, {.on_step = [](std::int64_t done) { return done == 5; }});
    EXPECT_EQ(stopped.points.size(), 5U);
    EXPECT_FALSE(stopped.diverged);
}

}  // namespace
}  // namespace stoker

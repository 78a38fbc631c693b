// The learning-rate range test (Smith, "Cyclical Learning Rates for Training Neural Networks", 2015): trains some steps
// with a rate that grows exponentially, and suggests one from the course of the loss. The weights are thrown away.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "stoker/pipeline/recipe_data.h"

namespace stoker {

struct RatePoint {
    double lr = 0;
    double loss = 0;
    double smoothed = 0;  // mean of the losses around, over a fifteenth of the steps
};

struct RangeTestOptions {
    double from = 1e-7;
    double to = 10;
    std::int64_t steps = 150;
    std::function<bool(std::int64_t done)> on_step = nullptr;  // called after each step; true ends the test
};

struct RangeTest {
    std::vector<RatePoint> points;  // by ascending rate; it ends where the loss diverged
    bool diverged = false;          // the mean of the last ten losses or so passed four times its best
    // The rate at which the smoothed loss falls fastest before its minimum, but at most a tenth of the rate at which it
    // diverged. Empty where it fell by no more than the losses scatter.
    std::optional<double> suggestion = std::nullopt;
};

// Fills `smoothed`.
void smooth(std::vector<RatePoint>& points);

// The rate to suggest for smoothed points.
std::optional<double> suggest_rate(std::span<const RatePoint> points, bool diverged);

// Trains the recipe's model on its training data, in one process. Validation data is not opened, and the schedule has
// no effect. Throws what plan_training throws.
RangeTest lr_range_test(const Recipe& recipe, const RangeTestOptions& options = {});

}  // namespace stoker

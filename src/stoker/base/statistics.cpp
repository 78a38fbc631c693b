#include "stoker/base/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr double kTail = 0.025;  // the chance that the true median is below the interval; the same above
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void require_values(const std::vector<double>& values) {
    if (values.empty()) {
        throw InvalidArgument({.where = "statistics", .expected = "at least one value", .got = "none"});
    }
}

}  // namespace

double median(std::vector<double> values) {
    require_values(values);
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return values.size() % 2 == 1 ? *middle : (*std::max_element(values.begin(), middle) + *middle) / 2;
}

double quantile(std::vector<double> values, double p) {
    require_values(values);
    std::ranges::sort(values);
    const double at = p * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(at);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return std::lerp(values[below], values[above], at - static_cast<double>(below));
}

// By the sign test: the number of n values below the true median is distributed as heads in n throws of a coin.
Estimate median_interval(std::vector<double> values) {
    const double middle = median(values);
    std::ranges::sort(values);
    const std::size_t count = values.size();
    double log_chance = -static_cast<double>(count) * std::numbers::ln2;  // of exactly `outside` values below
    double tail = std::exp(log_chance);                                   // the chance of at most so many
    std::size_t outside = 0;
    while (tail <= kTail) {
        ++outside;
        log_chance += std::log(static_cast<double>(count - outside + 1) / static_cast<double>(outside));
        tail += std::exp(log_chance);
    }
    if (outside == 0) {
        return {.low = -kInfinity, .median = middle, .high = kInfinity};
    }
    return {.low = values[outside - 1], .median = middle, .high = values[count - outside]};
}

Decision decide(const Estimate& ratio, double margin) {
    if (ratio.low > 1 + margin) {
        return Decision::better;
    }
    return ratio.high < 1 + margin ? Decision::worse : Decision::open;
}

}  // namespace stoker

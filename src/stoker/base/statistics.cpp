#include "stoker/base/statistics.h"

#include <algorithm>
#include <cmath>

#include "stoker/base/rng.h"

namespace stoker {
namespace {

constexpr std::uint64_t kResamples = 2000;
constexpr double kLowTail = 0.025;

}  // namespace

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return values.size() % 2 == 1 ? *middle : (*std::max_element(values.begin(), middle) + *middle) / 2;
}

double quantile(std::vector<double> values, double p) {
    std::ranges::sort(values);
    const double at = p * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(at);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return std::lerp(values[below], values[above], at - static_cast<double>(below));
}

Estimate bootstrap_median(const std::vector<double>& values, std::uint64_t seed) {
    std::vector<double> medians;
    std::vector<double> drawn(values.size());
    for (std::uint64_t i = 0; i < kResamples; ++i) {
        Rng rng({.seed = seed, .sample = i});
        for (double& value : drawn) {
            value = values[static_cast<std::size_t>((std::uint64_t{rng.next()} * values.size()) >> 32)];
        }
        medians.push_back(median(drawn));
    }
    return {.low = quantile(medians, kLowTail), .median = median(values), .high = quantile(medians, 1 - kLowTail)};
}

Decision decide(const Estimate& ratio, double margin) {
    if (ratio.low > 1 + margin) {
        return Decision::better;
    }
    return ratio.high < 1 + margin ? Decision::worse : Decision::open;
}

}  // namespace stoker

// All labels of an axis have the same unit (k, M, a power of ten) and the same number of digits.
#include "stoker/track/axis.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace stoker {
namespace {

double round_step(double range, int intervals, bool whole) {
    const double raw = range / std::max(intervals, 1);
    const double power = std::pow(10, std::floor(std::log10(raw)));
    const double factor = raw / power;
    const double step = power * (factor < 1.5 ? 1 : factor < 3.5 ? 2 : factor < 7.5 ? 5 : 10);
    return whole ? std::max(1.0, std::round(step)) : step;
}

struct Unit {
    double size = 1;
    std::string suffix;
};

Unit unit_for(double most) {
    for (const Unit& unit : {Unit{1e9, "G"}, Unit{1e6, "M"}, Unit{1e3, "k"}}) {
        if (most >= 10 * unit.size || (most >= unit.size && unit.size > 1e3)) {
            return most >= 1e15 ? Unit{} : unit;
        }
    }
    if (most > 0 && most < 1e-3) {
        const double exponent = std::floor(std::log10(most) + 1e-9);
        return {std::pow(10, exponent), fmt::format("e{:.0f}", exponent)};
    }
    return {};
}

int digits_for(double step) {
    constexpr int kMost = 6;
    for (int digits = 0; digits < kMost; ++digits) {
        const double scaled = step * std::pow(10, digits);
        if (std::abs(scaled - std::round(scaled)) < 1e-6 * scaled) {
            return digits;
        }
    }
    return kMost;
}

}  // namespace

double Axis::share(double value) const {
    if (log) {
        return std::log(std::max(value, 1e-3 * low) / low) / std::log(high / low);  // values below `low` are clipped
    }
    return (value - low) / (high - low);
}

Axis make_log_axis(double low, double high) {
    constexpr double kMostTicks = 6;
    const double first = std::floor(std::log10(low) + 1e-9);
    const double last = std::max(std::ceil(std::log10(high) - 1e-9), first + 1);
    const double step = std::ceil((last - first) / kMostTicks);
    Axis axis{.low = std::pow(10, first), .high = std::pow(10, last), .ticks = {}, .log = true};
    for (double exponent = first; exponent <= last; exponent += step) {
        const bool plain = std::abs(exponent) <= 4;
        const double at = std::pow(10, exponent);
        axis.ticks.push_back({at, plain ? fmt::format("{:g}", at) : fmt::format("1e{:.0f}", exponent)});
    }
    return axis;
}

Axis make_axis(double low, double high, const AxisOptions& options) {
    const double size = std::max(std::abs(low), std::abs(high));
    if (!(high - low > 1e-12 * size) || high - low < 1e-300) {
        const double around = size > 1e-300 ? size / 2 : 1;
        low -= around, high += around;
    }
    const double step = round_step(high - low, options.intervals, options.whole);
    const double first = options.tight ? std::ceil(low / step - 1e-9) : std::floor(low / step + 1e-9);
    const double last = options.tight ? std::floor(high / step + 1e-9) : std::ceil(high / step - 1e-9);
    Axis axis{.low = options.tight ? low : first * step, .high = options.tight ? high : last * step, .ticks = {}};
    const double most = std::max(std::abs(axis.low), std::abs(axis.high));
    const Unit unit = unit_for(most);
    const int digits = digits_for(step / unit.size);
    for (double tick = first; tick <= last; ++tick) {
        const double at = tick == 0 ? 0 : tick * step;  // no -0
        const std::string label =
            most >= 1e15 ? fmt::format("{:.3g}", at) : fmt::format("{:.{}f}", at / unit.size, digits);
        axis.ticks.push_back({at, at == 0 ? "0" : label + unit.suffix});
    }
    return axis;
}

}  // namespace stoker

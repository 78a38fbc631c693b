#include "stoker/diagnose/report/thin.h"

#include <algorithm>
#include <cmath>

namespace stoker {

std::vector<StepBar> step_bars(std::span<const StepEntry> steps, std::size_t most) {
    const std::size_t width = std::max<std::size_t>(1, (steps.size() + most - 1) / most);
    std::vector<StepBar> bars;
    bars.reserve(steps.size() / width + 1);
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const StepEntry& step = steps[i];
        if (i % width == 0) {
            bars.push_back({.first = step.step});
        }
        StepBar& bar = bars.back();
        bar.last = step.step;
        ++bar.count;
        for (std::size_t phase = 0; phase < kPhases; ++phase) {
            bar.times[phase] += step.host.times[phase];
        }
        if (const auto total = step.host.total(); bar.count == 1 || total > bar.peak) {
            bar.peak = total;
            bar.peak_step = step.step;
        }
        if (step.ready) {
            ++bar.ready_count;
            bar.ready_sum += *step.ready;
            bar.ready_min = std::min(bar.ready_min.value_or(*step.ready), *step.ready);
        }
    }
    return bars;
}

std::vector<MemoryPoint> thinned(std::span<const MemoryPoint> points, std::size_t most) {
    if (points.size() <= most) {
        return {points.begin(), points.end()};
    }
    const std::size_t intervals = std::max<std::size_t>(1, most / 2);
    const double start = points.front().us;
    const double width = (points.back().us - start) / static_cast<double>(intervals);
    const auto interval_of = [&](const MemoryPoint& point) {
        const double at = width > 0 ? (point.us - start) / width : 0;
        return std::clamp(at, 0.0, static_cast<double>(intervals - 1));
    };
    std::vector<MemoryPoint> kept;
    for (auto from = points.begin(); from != points.end();) {
        const double interval = std::floor(interval_of(*from));
        const auto to = std::find_if(
            from, points.end(), [&](const MemoryPoint& point) { return std::floor(interval_of(point)) != interval; });
        const auto [low, high] =
            std::minmax_element(from, to, [](const MemoryPoint& a, const MemoryPoint& b) { return a.bytes < b.bytes; });
        kept.push_back(*std::min(low, high));
        if (low != high) {
            kept.push_back(*std::max(low, high));
        }
        from = to;
    }
    return kept;
}

}  // namespace stoker

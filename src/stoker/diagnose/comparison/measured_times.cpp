// Steps are drawn anew by blocks. The interval of the ratio is widened by what no step of a run shows: two starts of
// one program differ, a run drifts, and other processes took cores.
#include "stoker/diagnose/comparison/measured_times.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "stoker/base/statistics.h"

namespace stoker {
namespace {

constexpr double kNormal = 1.96;
// The standard deviation between means of runs of one program on one machine, beyond what their steps show: memory lies
// elsewhere, and caches and clocks are in another state.
constexpr double kBetweenRuns = 0.01;
constexpr double kLeastTaken = 0.05;  // of the cores' time
constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr auto at(Phase phase) {
    return static_cast<std::size_t>(phase);
}

void add_rare(PhaseSeconds& seconds, const StepTimes& times, double checkpoint_error, double evaluation_error) {
    const auto cost = [](const RareCost& rare, double error) {
        return rare.count > 0 ? std::max(0.0, rare.seconds + error * rare.deviation) / rare.every : 0;
    };
    seconds[at(Phase::checkpoint)] += cost(times.checkpoint, checkpoint_error) + times.between_epochs.value_or(0);
    seconds[at(Phase::evaluate)] += cost(times.evaluation, evaluation_error);
}

// From the values of all draws.
Interval interval_of(double expected, const std::vector<double>& values) {
    constexpr double kTail = 0.025;
    if (values.empty()) {
        return {.low = -kInfinity, .expected = expected, .high = kInfinity};
    }
    return {.low = std::min(quantile(values, kTail), expected),
            .expected = expected,
            .high = std::max(quantile(values, 1 - kTail), expected)};
}

void scale(PhaseSeconds& seconds, double factor) {
    std::ranges::transform(seconds, seconds.begin(), [&](double value) { return factor * value; });
}

}  // namespace

Drawn drawn(const StepTimes& times, std::uint64_t seed) {
    Drawn out{.mean = times.mean(), .spread = spread_of(times.steps)};
    out.draws = draw_means(times.steps, out.spread, seed);
    std::mt19937_64 random(seed + 1000);
    std::normal_distribution<double> normal;
    for (PhaseSeconds& draw : out.draws) {
        const double checkpoint = normal(random);
        add_rare(draw, times, checkpoint, normal(random));
    }
    add_rare(out.mean, times, 0, 0);
    return out;
}

void scale(Drawn& drawn, double factor) {
    scale(drawn.mean, factor);
    for (PhaseSeconds& draw : drawn.draws) {
        scale(draw, factor);
    }
}

Interval difference_of(const Drawn& a, const Drawn& b, std::size_t phase) {
    const auto widened = [phase](const Drawn& side, const PhaseSeconds& draw) {
        return side.mean[phase] + side.spread.widening * (draw[phase] - side.mean[phase]);
    };
    std::vector<double> values(std::min(a.draws.size(), b.draws.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = widened(b, b.draws[i]) - widened(a, a.draws[i]);
    }
    return interval_of(b.mean[phase] - a.mean[phase], values);
}

// Deviations are widened as logarithms, so that all times of a wide interval are positive.
Interval log_ratio_of(const Drawn& a, const Drawn& b) {
    const auto log_of = [](const PhaseSeconds& seconds) { return std::log(std::max(sum_of(seconds), 1e-9)); };
    const auto widened = [&](const Drawn& side, const PhaseSeconds& draw) {
        return log_of(side.mean) + side.spread.widening * (log_of(draw) - log_of(side.mean));
    };
    std::vector<double> values(std::min(a.draws.size(), b.draws.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = widened(b, b.draws[i]) - widened(a, a.draws[i]);
    }
    return interval_of(log_of(b.mean) - log_of(a.mean), values);
}

Hidden hidden_of(const Side& side, const Drawn& drawn) {
    Hidden hidden;
    const double mean = sum_of(drawn.mean);
    hidden.drift = mean > 0 ? std::min(drawn.spread.drift / mean, 0.5) : 0;
    // A GPU's run loses cores where it waits for them.
    const double most = side.summary.on_cpu ? 0.95 : side.summary.of(Phase::wait);
    hidden.taken = std::min(others_share(side.rank, side.summary) + stolen_share(side.rank), most);
    return hidden;
}

Interval between_runs(const Interval& log_ratio, const Hidden& a, const Hidden& b) {
    const double start = kNormal * std::sqrt(2.0) * kBetweenRuns;
    const double drift = (a.drift + b.drift) / 2;
    const double below = std::hypot(log_ratio.expected - log_ratio.low, start) + drift;
    const double above = std::hypot(log_ratio.high - log_ratio.expected, start) + drift;
    return {.low = log_ratio.known() ? std::exp(log_ratio.expected - below) : -kInfinity,
            .expected = std::exp(log_ratio.expected),
            .high = std::exp(log_ratio.expected + above)};
}

// Other processes that took cores may have cost nothing, or as large a part of a run's time. Two runs under the same
// load differ too, since it takes now more and now less from the training thread.
Interval with_load(Interval ratio, const Hidden& a, const Hidden& b) {
    const auto certain = [](const Hidden& hidden) { return hidden.taken > kLeastTaken ? 1 - hidden.taken : 1; };
    ratio.low *= certain(b);
    ratio.high /= certain(a);
    return ratio;
}

}  // namespace stoker

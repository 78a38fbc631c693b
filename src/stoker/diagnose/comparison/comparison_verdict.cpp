#include "stoker/diagnose/comparison/comparison_verdict.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>

#include "stoker/base/pluralize.h"
#include "stoker/diagnose/report/units.h"

namespace stoker {
namespace {

std::string seconds_text(double seconds) {
    return duration_text(1e6 * seconds);
}

std::string factor_text(double factor) {
    return factor < 0.095 || factor > 99.5 ? fmt::format("{:.2g}", factor) : fmt::format("{:.2f}", factor);
}

// The phases that changed in the direction of the whole, the largest first, until they make up most of it.
std::vector<PhaseChange> main_changes(const Comparison& comparison, double sign) {
    constexpr double kMost = 0.8;
    constexpr double kLeast = 0.1;  // of all changes in this direction
    std::vector<PhaseChange> changes = comparison.phases;
    std::ranges::stable_sort(
        changes, [&](const PhaseChange& a, const PhaseChange& b) { return sign * (a.b - a.a) > sign * (b.b - b.a); });
    double all = 0;
    for (const PhaseChange& change : changes) {
        all += std::max(0.0, sign * (change.b - change.a));
    }
    double sum = 0;
    std::vector<PhaseChange> shown;
    for (const PhaseChange& change : changes) {
        const double part = sign * (change.b - change.a);
        if (part < kLeast * all || sum > kMost * all) {
            break;
        }
        sum += part;
        shown.push_back(change);
    }
    return shown;
}

// "wait grew by 12.1 ms of 12.9 ms"
std::string changes_text(const Comparison& comparison) {
    const double whole = std::transform_reduce(comparison.phases.begin(), comparison.phases.end(), 0.0, std::plus(),
                                               [](const PhaseChange& change) { return change.b - change.a; });
    const double sign = comparison.ratio.expected >= 1 ? 1 : -1;
    const std::vector<PhaseChange> shown = main_changes(comparison, sign);
    std::vector<std::string> parts;
    double sum = 0;
    for (const PhaseChange& change : shown) {
        const double part = sign * (change.b - change.a);
        sum += part;
        parts.push_back(fmt::format("{} {}{}", phase_name(change.phase),
                                    parts.empty() ? (sign > 0 ? "grew by " : "fell by ") : "by ", seconds_text(part)));
    }
    if (parts.empty()) {
        return {};
    }
    constexpr double kRounding = 1.005;
    return fmt::format("{}{}", fmt::join(parts, ", "),
                       sum <= kRounding * sign * whole ? " of " + seconds_text(sign * whole)
                                                       : ", the whole by " + seconds_text(sign * whole));
}

std::string causes_text(const Comparison& comparison) {
    std::vector<std::string> causes;
    for (const std::size_t cause : comparison.causes) {
        causes.push_back(difference_text(comparison.differences[cause].difference));
    }
    if (!causes.empty()) {
        return fmt::format("; {}", fmt::join(causes, ", "));
    }
    if (comparison.outcome == Outcome::unclear) {
        return {};
    }
    return comparison.differences.empty() ? "; the records name no fact that differs"
                                          : "; no fact that differs explains it";
}

std::string interval_text(const Interval& ratio) {
    return fmt::format("{} to {}", factor_text(ratio.low), factor_text(ratio.high));
}

}  // namespace

std::string difference_text(const Difference& difference) {
    const auto text = [](const std::string& value) { return value.empty() ? std::string("none") : value; };
    return fmt::format("{} {} -> {}", difference.name, text(difference.a), text(difference.b));
}

std::string comparison_verdict(const Comparison& comparison) {
    const char* const unit = comparison.per_sample ? "sample" : "step";
    const std::string ratio = factor_text(comparison.ratio.expected);
    if (!comparison.ratio.known()) {
        const bool none = comparison.a.judged.steps == 0 || comparison.b.judged.steps == 0;
        return none ? fmt::format("{} lacks steps to judge.", comparison.a.judged.steps == 0 ? "A" : "B")
                    : fmt::format(
                          "B takes {}x the time of a {} of A, but there are too few steps to say how sure "
                          "that is.",
                          ratio, unit);
    }
    if (comparison.outcome == Outcome::same) {
        return fmt::format("No difference beyond the noise: B takes {}x the time of a {} of A ({}).", ratio, unit,
                           interval_text(comparison.ratio));
    }
    const std::string head =
        fmt::format("B takes {}x the time of a {} of A ({})", ratio, unit, interval_text(comparison.ratio));
    const std::string why = changes_text(comparison) + causes_text(comparison);
    return comparison.outcome == Outcome::unclear
               ? fmt::format("{}, and other processes may be all of it: {}. Measure again.", head, why)
               : fmt::format("{}: {}.", head, why);
}

std::vector<std::string> comparison_notes(const Measurement& measurement) {
    constexpr double kShown = 0.02;
    std::vector<std::string> notes;
    if (measurement.a.kind != measurement.b.kind) {
        notes.push_back(
            fmt::format("{} is a trace: the profiler slows the host, so its steps take longer than those "
                        "of a run without it.",
                        measurement.a.kind == "trace" ? "A" : "B"));
    }
    for (const Phase phase : measurement.dropped) {
        notes.push_back(fmt::format("One of them is too short for the other's {}: they are left out of both.",
                                    phase == Phase::evaluate ? "evaluations" : "checkpoints"));
    }
    for (const auto& [name, records, drift, taken] :
         {std::tuple("A", &measurement.a, measurement.drift_a, measurement.taken_a),
          std::tuple("B", &measurement.b, measurement.drift_b, measurement.taken_b)}) {
        if (drift > kShown) {
            notes.push_back(fmt::format("{} drifted by {} within its steps: the interval is wider for it.", name,
                                        percent_text(drift)));
        }
        if (taken > 0.05) {
            notes.push_back(fmt::format("Others took {} of the cores' time from {}.", percent_text(taken), name));
        }
        if (records->ranks.size() > 1) {
            notes.push_back(fmt::format("Times of {} are those of rank {} of {}.", name,
                                        records->ranks.front().facts.rank, records->ranks.size()));
        }
    }
    return notes;
}

}  // namespace stoker

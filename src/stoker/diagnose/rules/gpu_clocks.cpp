// The GPU works more slowly than it could, because heat or a fault lowers its clock.
#include <algorithm>
#include <array>
#include <string_view>

#include "stoker/diagnose/rules/lost_time.h"
#include "stoker/diagnose/rules/rule_families.h"
#include "stoker/diagnose/rules/run_summary.h"

namespace stoker {
namespace {

// Clocks of the intervals in which something else than the usual limit of power held them back. A GPU at its limit of
// power is at work.
struct ThrottledClocks {
    double seconds = 0;
    double share_seconds = 0;     // of the highest clock, times seconds
    double all_seconds = 0;       // of intervals with a reading
    std::string_view limit = {};  // of the last one
    int celsius = 0;              // the most
};

ThrottledClocks throttled_clocks(const RankRecords& rank) {
    ThrottledClocks found;
    for (const IntervalEntry& interval : rank.intervals) {
        if (!interval.gpu_clock_share || interval.seconds <= 0) {
            continue;
        }
        constexpr double kLow = 0.85;  // of the highest clock
        found.all_seconds += interval.seconds;
        const std::string_view limit = interval.gpu_clock_limit;
        if (limit.empty() || limit == "power limit" || *interval.gpu_clock_share > kLow) {
            continue;
        }
        found.seconds += interval.seconds;
        found.share_seconds += interval.seconds * std::max(*interval.gpu_clock_share, 0.0);
        found.limit = limit;
        found.celsius = std::max(found.celsius, interval.gpu_celsius.value_or(0));
    }
    return found;
}

std::optional<Finding> gpu_throttled(const RunView&, const RankRecords& rank, const RunSummary& run) {
    const ThrottledClocks found = throttled_clocks(rank);
    constexpr double kOften = 0.2;  // of the readings: one alone may be the start's
    if (found.seconds < kOften * found.all_seconds || found.seconds <= 0) {
        return std::nullopt;
    }
    const double clock = found.share_seconds / found.seconds;
    const double often = found.seconds / found.all_seconds;
    const double lost = often * (1 - clock) * (1 - run.input_wait());
    constexpr double kWarn = 0.05;
    return Finding{.severity = lost < kWarn ? Severity::info : severity_of_lost(lost),
                   .evidence = {{"clock_share", clock},
                                {"throttled_share", often},
                                {"celsius", static_cast<double>(found.celsius)}},
                   .gain = gain_of_share(lost, 0.2),
                   .confidence = 0.8,
                   .place = std::string(found.limit)};
}

}  // namespace

std::span<const Rule> gpu_clock_rules() {
    static constexpr std::array kRules = {
        Rule{"gpu-throttled",
             "heat or a fault holds the GPU's clock below 85 % of its maximum in a fifth of the readings (the usual "
             "limit of power does not count)",
             "cooling, power supply", gpu_throttled, Needs::gpu},
    };
    return kRules;
}

}  // namespace stoker

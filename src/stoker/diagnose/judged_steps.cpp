#include "stoker/diagnose/judged_steps.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "stoker/diagnose/phase_sums.h"

namespace stoker {
namespace {

// Whether the profile is of the rank's own steps, without those that are marked as warm-up; a run that was profiled has
// intervals with an account.
bool is_traced(const RankRecords& rank) {
    const auto judged = std::ranges::count(rank.steps, false, &StepEntry::warm_up);
    return rank.profile && rank.profile->steps == judged &&
           std::ranges::all_of(rank.intervals,
                               [](const IntervalEntry& interval) { return interval.host.total().count() == 0; });
}

// The first step that counts: of a trace after its warm-up; after the first interval of a run where there are more, and
// else after a tenth of the steps. A profile keeps the steps without the profiler, which may all be in the first
// interval.
std::int64_t first_steady_step(const RankRecords& rank) {
    constexpr std::size_t kEnoughIntervals = 3;
    constexpr std::size_t kFewSteps = 10;
    if (rank.steps.empty()) {
        return 0;
    }
    if (is_traced(rank)) {
        const auto judged = std::ranges::find(rank.steps, false, &StepEntry::warm_up);
        return judged == rank.steps.end() ? rank.steps.front().step : judged->step;
    }
    if (rank.intervals.size() >= kEnoughIntervals && rank.intervals.front().host.total().count() > 0) {
        const std::int64_t first = rank.intervals.front().last_step + 1;
        if (rank.steps[rank.steps.size() / 2].step >= first) {
            return first;
        }
    }
    const std::size_t skipped = std::max<std::size_t>(rank.steps.size() / kFewSteps, rank.steps.size() > 1 ? 1 : 0);
    return rank.steps[skipped].step;
}

// Seconds of the last read of losses in a run that was killed or still trains: the step that would hold it is missing.
// The reads before it are in the interval's steps.
double last_read(const RankRecords& rank) {
    const IntervalEntry& last = rank.intervals.back();
    if (last.last_step != rank.steps.back().step) {
        return 0;
    }
    double left = -last.after_us.value_or(0) / 1e6;
    for (const SyncEntry& sync : last.syncs) {
        left += sync.us / 1e6;
    }
    for (auto step = rank.steps.rbegin(); step != rank.steps.rend() && step->step > last.first_step; ++step) {
        left -= seconds_of(step->host.times[static_cast<std::size_t>(Phase::sync)]);
    }
    return std::max(left, 0.0);
}

// Seconds of the reads of losses that no step holds. On a GPU the host waits there for all work that it launched ahead.
double reads_after_steps(const RankRecords& rank, std::int64_t first) {
    if (rank.steps.empty() || rank.intervals.empty()) {
        return 0;
    }
    double seconds = last_read(rank);
    for (const IntervalEntry& interval : rank.intervals) {
        seconds += interval.last_step < first ? 0 : std::max(interval.after_us.value_or(0), 0.0) / 1e6;
    }
    return seconds;
}

}  // namespace

JudgedSteps judged_steps(const RankRecords& rank) {
    const std::int64_t first = first_steady_step(rank);
    JudgedSteps judged;
    std::vector<double> times;
    for (const StepEntry& step : rank.steps) {
        if (step.step < first || step.warm_up) {
            continue;
        }
        judged.first_step = judged.steps == 0 ? step.step : judged.first_step;
        judged.last_step = step.step;
        ++judged.steps;
        add_times(judged.account.times, step.host.times);
        times.push_back(seconds_of(step.host.total()));
    }
    judged.account.times[static_cast<std::size_t>(Phase::sync)] +=
        std::chrono::nanoseconds(std::llround(1e9 * reads_after_steps(rank, first)));
    if (!times.empty()) {
        const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
        std::ranges::nth_element(times, middle);
        judged.median_step = *middle;
    }
    return judged;
}

}  // namespace stoker

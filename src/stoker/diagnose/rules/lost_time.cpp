#include "stoker/diagnose/rules/lost_time.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "stoker/base/statistics.h"

namespace stoker {
namespace {

double us_of(const PhaseTimes& times, Phase phase) {
    return std::chrono::duration<double, std::micro>(times[static_cast<std::size_t>(phase)]).count();
}

double sync_idle_us(const RankRecords& rank) {
    double us = 0;
    for (const SyncEntry& sync : rank.profile->syncs) {
        us += sync.idle_us.value_or(0);
    }
    return us;
}

// The GPU's idle time in `phase`, without gaps before work that had been launched already.
double waits_for_host_us(const RankRecords& rank, Phase phase) {
    return us_of(*rank.profile->idle_during, phase) - us_of(rank.profile->queued_during.value_or(PhaseTimes{}), phase);
}

}  // namespace

bool on_gpu(const RankRecords& rank) {
    return rank.facts.device.type == "cuda";
}

double share_of_span(const RankRecords& rank, double us) {
    return rank.profile && rank.profile->span_us > 0 ? std::clamp(us / rank.profile->span_us, 0.0, 1.0) : 0;
}

double idle_share(const RankRecords& rank) {
    double us = 0;
    for (std::size_t i = 0; rank.profile && rank.profile->idle_during && i < kPhases; ++i) {
        us += us_of(*rank.profile->idle_during, static_cast<Phase>(i));
    }
    return share_of_span(rank, us);
}

double lost_share(const RankRecords& rank, const RunSummary& run, Phase phase) {
    if (rank.profile && rank.profile->idle_during) {
        return share_of_span(rank, waits_for_host_us(rank, phase));
    }
    return run.of(phase);
}

Severity severity_of_lost(double share) {
    constexpr double kCritical = 0.20;
    return share >= kCritical ? Severity::critical : Severity::warn;
}

double lost_to_syncs(const RankRecords& rank, const RunSummary& run) {
    if (rank.profile && rank.profile->idle_during) {
        return share_of_span(rank, std::max(sync_idle_us(rank), waits_for_host_us(rank, Phase::sync)));
    }
    // Without waits, the host works while the device does: what can be won is the shorter of the two.
    const double sync = run.of(Phase::sync);
    return in_python(rank) ? std::min(sync, 1 - sync) : sync;
}

double lost_to_launches(const RankRecords& rank, const RunSummary& run) {
    if (!rank.profile || !rank.profile->idle_during) {
        return 0;
    }
    double us = 0;
    for (const Phase phase : {Phase::forward, Phase::backward, Phase::optimizer, Phase::step, Phase::unmeasured}) {
        us += waits_for_host_us(rank, phase);
    }
    const double after_syncs = lost_to_syncs(rank, run) * rank.profile->span_us - waits_for_host_us(rank, Phase::sync);
    return share_of_span(rank, std::max(0.0, us - std::max(0.0, after_syncs)));
}

double steps_of(const RankRecords& rank) {
    const std::int64_t steps = rank.profile && rank.profile->steps > 0 ? rank.profile->steps : std::ssize(rank.steps);
    return std::max(1.0, static_cast<double>(steps));
}

double median_wait(const RankRecords& rank, const RunSummary& run) {
    std::vector<double> waits;
    for (const StepEntry& step : rank.steps) {
        if (run.judges(step)) {
            waits.push_back(
                std::chrono::duration<double>(step.host.times[static_cast<std::size_t>(Phase::wait)]).count());
        }
    }
    return median(std::move(waits));
}

bool waits_throughout(const RankRecords& rank, const RunSummary& run, double least) {
    constexpr std::int64_t kParts = 5;
    std::array<StepRecord, kParts> parts = {};
    for (const StepEntry& step : rank.steps) {
        if (!run.judges(step)) {
            continue;
        }
        const std::int64_t part = (step.step - run.first_step) * kParts / (run.last_step - run.first_step + 1);
        PhaseTimes& times = parts[static_cast<std::size_t>(part)].times;
        for (std::size_t i = 0; i < kPhases; ++i) {
            times[i] += step.host.times[i];
        }
    }
    const auto waits = [least](const StepRecord& part) { return part.share(Phase::wait) >= least; };
    return 2 * std::ranges::count_if(parts, waits) > kParts;
}

}  // namespace stoker

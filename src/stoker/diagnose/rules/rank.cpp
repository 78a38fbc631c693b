// Communication between ranks, and ranks that are slower than others.
#include "stoker/diagnose/rules/rule_families.h"

#include <algorithm>
#include <array>
#include <map>

#include "stoker/base/statistics.h"
#include "stoker/diagnose/rules/lost_time.h"
#include "stoker/diagnose/rules/run_summary.h"

namespace stoker {
namespace {

constexpr double kCommunicationWarn = 0.10;  // of the time, exposed
constexpr double kGlooWarn = 0.03;           // of the time, exposed
constexpr double kRankCritical = 0.30;

// The share of the time in communication that nothing hides.
double exposed_share(const RankRecords& rank, const RunSummary& run) {
    double us = 0;
    if (rank.profile) {
        for (const CollectiveEntry& collective : rank.profile->collectives) {
            us += collective.exposed_us;
        }
    }
    return on_gpu(rank) && rank.profile ? share_of_span(rank, us) : run.of(Phase::communication);
}

// The share of the time in gloo's reductions that nothing hides. Its barriers and broadcasts move no gradients. Without
// a profile all communication counts of a run that says that it goes through gloo.
double gloo_share(const RankRecords& rank, const RunSummary& run) {
    if (on_gpu(rank) && !rank.profile) {
        return rank.facts.train.collectives == "gloo" ? run.of(Phase::communication) : 0;
    }
    double us = 0;
    bool nccl = false;
    for (std::size_t i = 0; rank.profile && i < rank.profile->collectives.size(); ++i) {
        const CollectiveEntry& collective = rank.profile->collectives[i];
        const bool reduces = collective.name.find("reduce") != std::string::npos;
        nccl = nccl || (reduces && collective.backend == "nccl");
        us += collective.backend == "gloo" && collective.on_device && reduces ? collective.exposed_us : 0;
    }
    return on_gpu(rank) && !nccl ? share_of_span(rank, us) : 0;  // else gloo reduces tensors in host memory
}

std::optional<Finding> gloo_on_gpu(const RunView&, const RankRecords& rank, const RunSummary& run) {
    const double exposed = gloo_share(rank, run);
    if (exposed < kGlooWarn) {
        return std::nullopt;
    }
    return Finding{.severity = exposed >= kRankCritical ? Severity::critical : Severity::warn,
                   .evidence = {{"exposed_share", exposed}},
                   .gain = gain_of_share(exposed, 0.6),
                   .confidence = 0.9};
}

// Parameters are in shards that each layer gathers, as under FSDP.
bool gathers_parameters(const RankRecords& rank) {
    double gathered = 0;
    double reduced = 0;
    for (std::size_t i = 0; rank.profile && i < rank.profile->collectives.size(); ++i) {
        const CollectiveEntry& collective = rank.profile->collectives[i];
        const bool shards = collective.name.find("gather") != std::string::npos ||
                            collective.name.find("reduce_scatter") != std::string::npos;
        (shards ? gathered : reduced) += collective.us;
    }
    return gathered > reduced;
}

bool sends_half(const RankRecords& rank) {
    double half = 0;
    double all = 0;
    for (std::size_t i = 0; rank.profile && i < rank.profile->collectives.size(); ++i) {
        const CollectiveEntry& collective = rank.profile->collectives[i];
        all += collective.us;
        half += collective.half ? collective.us : 0;
    }
    return half > all / 2;
}

// The rank that communicates least, of those that can be compared: a GPU's collectives are in its profile alone.
const RankRecords* least_communicating(const RunView& records) {
    const bool profiled = std::ranges::any_of(
        records.ranks, [](const RankRecords& rank) { return on_gpu(rank) && rank.profile.has_value(); });
    const RankRecords* best = nullptr;
    for (const RankRecords& rank : records.ranks) {
        const bool known = profiled ? rank.profile.has_value() : !rank.steps.empty();
        if (known && (best == nullptr ||
                      exposed_share(rank, records.summary(rank)) < exposed_share(*best, records.summary(*best)))) {
            best = &rank;
        }
    }
    return best;
}

// For a model in stages: ranks wait while the first and the last micro-batches pass through the other stages.
Finding waiting_stages(const RankRecords& rank, double share) {
    constexpr double kMuch = 0.2;
    // Twice the parts halve it; smaller ones may compute more slowly.
    return Finding{
        .severity = share < kMuch           ? Severity::info
                    : share < kRankCritical ? Severity::warn
                                            : Severity::critical,
        .evidence = {{"exposed_share", share},
                     {"ranks", static_cast<double>(rank.facts.world_size)},
                     {"micro_batches", std::max(1.0, static_cast<double>(rank.facts.train.accumulate.value_or(1)))}},
        .rank = rank.facts.rank,
        .gain = gain_of_share(share / 2, 0),
        .confidence = 0.6,
        .variant = "stages"};
}

bool has_stages(const RunView& records) {
    return std::ranges::any_of(records.ranks, [](const RankRecords& rank) { return !rank.facts.train.stages.empty(); });
}

// The rank that communicates least is the one that the others wait for; its time is the price of communication.
std::optional<Finding> communication(const RunView& records, const RankRecords&, const RunSummary&) {
    const RankRecords* best = least_communicating(records);
    const double least = best == nullptr ? 0 : exposed_share(*best, records.summary(*best));
    if (best == nullptr || best->facts.world_size < 2 || least < kCommunicationWarn ||
        gloo_share(*best, records.summary(*best)) >= kGlooWarn) {
        return std::nullopt;
    }
    if (has_stages(records)) {
        return waiting_stages(*best, least);
    }
    return Finding{.severity = least >= kRankCritical ? Severity::critical : Severity::warn,
                   .evidence = {{"exposed_share", least}, {"ranks", static_cast<double>(best->facts.world_size)}},
                   .rank = best->facts.rank,
                   .gain = gain_of_share(least / 2, 0.4),  // the fix halves it
                   .confidence = 0.7,
                   .variant = sends_half(*best)           ? "half"
                              : gathers_parameters(*best) ? "shards"
                                                          : ""};
}

double ms_of(std::chrono::nanoseconds time) {
    return std::chrono::duration<double, std::milli>(time).count();
}

// Phases in which ranks wait for each other. The trainer reduces gradients within the backward pass, so a rank that
// computes slowly shows it in the forward pass; a trace tells the two apart. A host that waits for its GPU also waits
// for the other ranks' GPUs.
bool is_shared(Phase phase, const RankRecords& rank, const RunView& records) {
    return phase == Phase::communication || (phase == Phase::backward && records.kind == "run") ||
           (phase == Phase::sync && on_gpu(rank));
}

// A rank's own time in a step, or in several.
double own_ms(const StepRecord& host, const RankRecords& rank, const RunView& records) {
    double ms = 0;
    for (std::size_t i = 0; i < kPhases; ++i) {
        ms += is_shared(static_cast<Phase>(i), rank, records) ? 0 : ms_of(host.times[i]);
    }
    return ms;
}

StepRecord mean_step(const RunSummary& run) {
    StepRecord mean = run.account;
    for (auto& time : mean.times) {
        time /= std::max<std::int64_t>(1, run.steps);
    }
    return mean;
}

double profiled_step_ms(const RankRecords& rank) {
    return rank.profile->span_us / 1e3 / steps_of(rank);
}

// Mean own time of each rank in a step. On GPUs the waiting is in the collectives' kernels.
std::vector<double> own_times(const RunView& records) {
    std::vector<double> times;
    for (const RankRecords& rank : records.ranks) {
        double mean = own_ms(mean_step(records.summary(rank)), rank, records);
        if (on_gpu(rank) && rank.profile) {
            const double exposed = exposed_share(rank, records.summary(rank));
            mean = std::min(mean, profiled_step_ms(rank) * (1 - exposed));
        }
        times.push_back(mean);
    }
    return times;
}

// For a run, each rank's own time in the intervals by their first step: only rank 0 writes its steps one by one, and a
// step must not be compared with a mean. For traces, in the steps.
std::map<std::int64_t, std::vector<double>> own_times_at(const RunView& records) {
    const bool in_intervals = std::ranges::all_of(records.ranks, [&](const RankRecords& rank) {
        return records.kind == "run" && std::ranges::any_of(rank.intervals, [](const IntervalEntry& interval) {
                   return interval.host.total().count() > 0;
               });
    });
    std::map<std::int64_t, std::vector<double>> times;
    for (const RankRecords& rank : records.ranks) {
        for (const IntervalEntry& interval : rank.intervals) {
            if (in_intervals) {
                times[interval.first_step].push_back(own_ms(interval.host, rank, records));
            }
        }
        for (const StepEntry& step : rank.steps) {
            if (!in_intervals && records.summary(rank).judges(step)) {
                times[step.step].push_back(own_ms(step.host, rank, records));
            }
        }
    }
    return times;
}

// How often a rank was the slowest, as a share of the steps or intervals that all ranks have.
double share_of_worst(const RunView& records, std::size_t worst) {
    double all = 0;
    double slow = 0;
    for (const auto& [first, times] : own_times_at(records)) {
        if (times.size() == records.ranks.size()) {
            all += 1;
            slow += std::ranges::max_element(times) - times.begin() == static_cast<std::ptrdiff_t>(worst) ? 1 : 0;
        }
    }
    return all > 0 ? slow / all : 0;
}

// The phase in which `worst` spends more than the median of the others, and by how much in a step.
std::pair<Phase, double> cause_of(const RunView& records, std::size_t worst) {
    std::pair<Phase, double> cause{Phase::unmeasured, 0};
    for (std::size_t phase = 0; phase < kPhases; ++phase) {
        std::vector<double> others;
        double own = 0;
        for (std::size_t i = 0; i < records.ranks.size(); ++i) {
            const double ms = ms_of(mean_step(records.summary(records.ranks[i])).times[phase]);
            if (i == worst) {
                own = ms;
            } else {
                others.push_back(ms);
            }
        }
        const double excess = own - median(others);
        if (!is_shared(static_cast<Phase>(phase), records.ranks[worst], records) && excess > cause.second) {
            cause = {static_cast<Phase>(phase), excess};
        }
    }
    return cause;
}

std::optional<Finding> straggler(const RunView& records, const RankRecords&, const RunSummary&) {
    const auto is_alone = [](const RankRecords& rank) { return rank.steps.empty() || rank.facts.world_size < 2; };
    // The stages of a model differ by their work, not by their hosts.
    if (records.ranks.size() < 2 || std::ranges::any_of(records.ranks, is_alone) || has_stages(records)) {
        return std::nullopt;
    }
    const std::vector<double> times = own_times(records);
    const auto worst = static_cast<std::size_t>(std::ranges::max_element(times) - times.begin());
    std::vector<double> others = times;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(worst));
    const double usual = median(others);
    constexpr double kLost = 0.1;  // of a step
    constexpr double kMostSteps = 0.6;
    const RankRecords& rank = records.ranks[worst];
    const bool device = on_gpu(rank) && rank.profile;
    const double whole = device ? profiled_step_ms(rank) : ms_of(mean_step(records.summary(rank)).total());
    const double lost = whole > 0 ? (times[worst] - usual) / whole : 0;
    if (lost < kLost || (!device && share_of_worst(records, worst) < kMostSteps)) {
        return std::nullopt;
    }
    const auto [phase, excess] = cause_of(records, worst);
    return Finding{.severity = lost >= kRankCritical ? Severity::critical : Severity::warn,
                   .evidence = {{"rank", static_cast<double>(rank.facts.rank)},
                                {"step_ms", times[worst]},
                                {"other_step_ms", usual},
                                {"cause_ms", excess}},
                   .rank = rank.facts.rank,
                   .gain = gain_of_share(lost, 0.6),
                   .confidence = 0.8,
                   .place = std::string(phase_name(phase))};
}

}  // namespace

std::span<const Rule> rank_rules() {
    static constexpr std::array kRules = {
        Rule{"gloo-on-gpu", "gloo reduces tensors of GPUs, which costs 3 % of the time", "the NCCL backend",
             gloo_on_gpu},
        Rule{"communication", "communication that nothing hides takes 10 % of the time, on the rank with the least",
             "gradients in bf16 (`train.compress_gradients`), a larger `data.batch_size`; of a model that is divided "
             "into "
             "stages more micro-batches (`train.accumulate`)",
             communication, Needs::steps, /*of_job=*/true},
        Rule{"straggler",
             "one rank of a job needs a tenth of a step more for itself than the others, in 60 % of the steps (on GPUs "
             "with a profile: on average)",
             "the rank and the phase in which it loses are named", straggler, Needs::steps, /*of_job=*/true},
    };
    return kRules;
}

}  // namespace stoker

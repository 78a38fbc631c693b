// Time that the host takes from the run: other processes, quotas, the hypervisor, little memory, threads that wait for
// a core, and types that its processor emulates.
#include "stoker/diagnose/rules/rule_families.h"

#include <algorithm>
#include <array>

#include "stoker/diagnose/counter_mean.h"
#include "stoker/diagnose/rules/lost_time.h"
#include "stoker/diagnose/rules/run_summary.h"

namespace stoker {
namespace {

constexpr double kHostGain = 0.05;  // of the time

// The gain from `share` of the cores' time. On a GPU the host wins only the time in which the GPU waits for it: for
// batches, or for work where a profile shows the GPU's idle time.
struct HostGain {
    Gain gain = {};
    Severity severity = Severity::info;
};

HostGain host_gain(const RankRecords& rank, const RunSummary& run, double share, double least) {
    double most = 1;
    if (on_gpu(rank)) {
        most = rank.profile && rank.profile->idle_during ? 0 : run.input_wait();
        for (std::size_t i = 0; rank.profile && rank.profile->idle_during && i < kPhases; ++i) {
            most += lost_share(rank, run, static_cast<Phase>(i));
        }
    }
    const double lost = std::min(share, most);
    return {.gain = gain_of_share(lost, least), .severity = lost >= kHostGain ? Severity::warn : Severity::info};
}

std::optional<Finding> throttled(const RunView&, const RankRecords& rank, const RunSummary& run) {
    const double share = counter_mean(rank, &IntervalEntry::throttled_share);
    constexpr double kWarn = 0.1;
    if (share < kWarn) {
        return std::nullopt;
    }
    const auto [gain, severity] = host_gain(rank, run, share / 2, 0.2);
    return Finding{.severity = severity,
                   .evidence = {{"throttled_share", share}, {"cores", run.cores.value_or(0)}},
                   .gain = gain,
                   .confidence = 0.7};
}

std::optional<Finding> stolen(const RunView&, const RankRecords& rank, const RunSummary& run) {
    const double share = counter_mean(rank, &IntervalEntry::steal_share);
    constexpr double kWarn = 0.1;
    if (share < kWarn) {
        return std::nullopt;
    }
    const auto [gain, severity] = host_gain(rank, run, share, 0.2);
    return Finding{.severity = severity, .evidence = {{"steal_share", share}}, .gain = gain, .confidence = 0.7};
}

double share_of_passes(const RunSummary& run) {
    return run.of(Phase::forward) + run.of(Phase::backward) + run.of(Phase::optimizer);
}

// An estimate, as a share of the time: half of the loss if all operations are as small as those that were measured.
double lost_to_threads(const RankRecords& rank, const RunSummary& run) {
    constexpr double kSlower = 0.5;
    const double speed = thread_speedup(rank);
    const bool wait = run.on_cpu && rank.facts.train.threads.value_or(1) > 1 && speed <= kSlower;
    return wait ? share_of_passes(run) * (1 - speed) / 2 : 0;
}

std::optional<Finding> oversubscribed(const RunView&, const RankRecords& rank, const RunSummary& run) {
    const double lost = rank.intervals.empty() ? 0 : lost_to_threads(rank, run);
    if (lost < kHostGain) {
        return std::nullopt;
    }
    return Finding{.severity = severity_of_lost(lost),
                   .evidence = {{"passes_share", share_of_passes(run)}, {"thread_speedup", thread_speedup(rank)}},
                   .gain = gain_of_share(2 * lost, 0),
                   .confidence = 0.6};
}

std::optional<Finding> other_load(const RunView&, const RankRecords& rank, const RunSummary& run) {
    if (!run.cores || !run.busy_share || !run.process_cores) {
        return std::nullopt;
    }
    const double ours = *run.process_cores * std::max(1, rank.facts.host.ranks.value_or(1)) / *rank.facts.host.cores;
    const double others = *run.busy_share - ours;
    constexpr double kWarn = 0.3;
    constexpr double kFull = 0.9;
    if (others < kWarn || *run.busy_share < kFull) {
        return std::nullopt;
    }
    const auto [gain, severity] = host_gain(rank, run, others, 0.2);
    // Against threads that wait for each other the program can do something.
    const bool yields = severity_of_lost(lost_to_threads(rank, run)) == Severity::critical;
    return Finding{.severity = yields ? Severity::info : severity,
                   .evidence = {{"others_share", others}, {"cores_busy_share", *run.busy_share}},
                   .gain = gain,
                   .confidence = 0.8};
}

std::optional<Finding> memory_pressure(const RunView&, const RankRecords& rank, const RunSummary&) {
    double most = 0;
    double faults = 0;
    double seconds = 0;
    for (const IntervalEntry& interval : rank.intervals) {
        most = std::max(most, static_cast<double>(interval.rss_bytes.value_or(0)));
        faults += static_cast<double>(interval.major_faults.value_or(0));
        seconds += interval.seconds;
    }
    const double swap = counter_mean(rank, &IntervalEntry::swap_in_bytes_per_second);
    const double limit = static_cast<double>(rank.facts.host.memory_bytes.value_or(0));
    const int ranks = std::max(1, rank.facts.host.ranks.value_or(1));  // they share the host's memory
    const double share = limit > 0 ? std::min(ranks * most / limit, 1.0) : 0;
    constexpr double kWarn = 0.92;
    constexpr double kAlmostAll = 0.97;
    constexpr double kSwap = 1e6;    // bytes a second
    constexpr double kFaults = 200;  // a second: pages that were taken away and read again
    constexpr double kNearLimit = 0.7;
    const bool thrashes = share > kNearLimit && (swap > kSwap || (seconds > 0 && faults / seconds > kFaults));
    if (share < kWarn && !thrashes) {
        return std::nullopt;
    }
    return Finding{.severity = share >= kAlmostAll || thrashes ? Severity::critical : Severity::warn,
                   .evidence = {{"memory_share", share},
                                {"swap_in_bytes_per_second", swap},
                                {"major_faults_per_second", seconds > 0 ? faults / seconds : 0}},
                   .gain = thrashes ? Gain{1.0, 1.3, 3.0} : Gain{},
                   .confidence = 0.7,
                   .variant = thrashes ? "thrashes" : ""};
}

std::optional<Finding> many_workers(const RunView&, const RankRecords& rank, const RunSummary& run) {
    const int workers = rank.facts.data.workers.value_or(0);
    constexpr double kFactor = 2;
    constexpr double kFull = 0.9;
    constexpr double kLost = 0.05;  // of the time: in Python, whose workers are processes
    constexpr double kMuch = 0.2;
    constexpr int kUsual = 4;  // on a machine of one core, workers that read ahead still help
    const double lost = lost_to_extra_workers(rank, run);
    const bool full = lost >= kLost || run.busy_share.value_or(0) >= kFull;
    if (!run.cores || workers < kUsual || workers <= kFactor * *run.cores || !full) {
        return std::nullopt;
    }
    Finding finding{.severity = Severity::info};
    finding.evidence = {{"workers", static_cast<double>(workers)},
                        {"cores", *run.cores},
                        {"cores_busy_share", run.busy_share.value_or(0)}};
    finding.gain = {1.0, 1.0, 1.05};  // workers are threads that sleep while the queue is full
    if (lost >= kLost) {
        finding.variant = "processes";
        finding.severity = lost >= kMuch ? Severity::critical : Severity::warn;
        finding.add("start_share", run.start_share);
        finding.add("core_wait_share", run.core_wait_share);
        finding.gain = gain_of_share(lost, 0.3);
    }
    finding.confidence = 0.7;
    return finding;
}

std::optional<Finding> slow_precision(const RunView&, const RankRecords& rank, const RunSummary& run) {
    constexpr double kSlower = 0.8;
    const double speed = rank.facts.device.half_speedup.value_or(1);
    const double passes = run.of(Phase::forward) + run.of(Phase::backward);
    const double lost = passes * (1 - speed);
    if (!run.on_cpu || speed > kSlower || lost < kHostGain) {
        return std::nullopt;
    }
    // The passes do more than multiply matrices: up to 5 % of the time with an mlp, a convnet and a ResNet-18.
    const auto gain = [&](double other) { return 1 / (1 - passes * std::max(0.0, 1 - speed - other)); };
    return Finding{.severity = severity_of_lost(lost),
                   .evidence = {{"passes_share", passes}, {"half_speedup", speed}},
                   .gain = {.low = gain(0.1), .expected = gain(0.04), .high = gain(0)},
                   .confidence = 0.8};
}

}  // namespace

std::span<const Rule> host_rules() {
    static constexpr std::array kRules = {
        Rule{"many-workers",
             "more than two workers for each core, and all cores are busy; a warning where worker processes of Python "
             "cost 5 % of the time",
             "`data.workers`: as many as cores", many_workers},
        Rule{"memory-pressure",
             "92 % of the allowed memory is used (critical: 97 %), or 70 % while pages come back from the disk: 1 MB/s "
             "of swap, or 200 major faults a second",
             "a smaller cache, prefetch or batch", memory_pressure},
        Rule{"cpu-throttled",
             "a container's quota stops the process in 10 % of its periods (info where a GPU loses nothing to it)",
             "a larger quota", throttled},
        Rule{"cpu-steal", "the hypervisor takes 10 % of the cores' time (info where a GPU loses nothing to it)",
             "dedicated cores", stolen},
        Rule{"oversubscription",
             "in a Python program that trains on a CPU, small operations are measured to take twice as long on torch's "
             "threads as on one, or longer, and 5 % of the time may be lost to it (critical: 20 %)",
             "`torch.set_num_threads(1)`", oversubscribed},
        Rule{"other-processes",
             "other processes take 30 % of the cores' time, and no core is free (info where a GPU loses nothing to it)",
             "stop them, or measure again", other_load},
        Rule{
            "slow-precision",
            "a run on a CPU in bf16 or fp16 loses 5 % of the time (critical: 20 %), since its products are measured to "
            "take 1.25 times as long as in fp32, or longer",
            "`train.precision = \"fp32\"`", slow_precision},
    };
    return kRules;
}

}  // namespace stoker

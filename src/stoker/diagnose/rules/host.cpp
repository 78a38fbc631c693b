// What the host takes from the run: other processes, quotas, the hypervisor, too little memory, threads that wait for a
// core, and types that its processor emulates.
#include "stoker/diagnose/rules/rule_families.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "stoker/diagnose/rules/lost_time.h"
#include "stoker/diagnose/rules/run_summary.h"

namespace stoker {
namespace {

constexpr double kHostGain = 0.05;  // of the time

// The mean of a counter over the rank's intervals, weighted by their length; empty where it was not measured.
std::optional<double> mean_of(const RankRecords& rank, std::optional<double> IntervalEntry::*counter) {
    double sum = 0;
    double seconds = 0;
    for (const IntervalEntry& interval : rank.intervals) {
        if (interval.*counter) {
            sum += *(interval.*counter) * interval.seconds;
            seconds += interval.seconds;
        }
    }
    return seconds > 0 ? std::optional(sum / seconds) : std::nullopt;
}

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

template <typename Judge>
std::vector<Finding> for_ranks(const JudgedRun& records, const Judge& judge) {
    std::vector<Finding> findings;
    for (const RankRecords& rank : records.ranks) {
        if (!rank.intervals.empty()) {
            judge(rank, records.summary(rank), findings);
        }
    }
    return findings;
}

std::vector<Finding> throttled(const JudgedRun& records) {
    return for_ranks(records, [](const RankRecords& rank, const RunSummary& run, std::vector<Finding>& findings) {
        const double share = mean_of(rank, &IntervalEntry::throttled_share).value_or(0);
        constexpr double kWarn = 0.1;
        if (share < kWarn) {
            return;
        }
        const auto [gain, severity] = host_gain(rank, run, share / 2, 0.2);
        Finding finding = finding_of("cpu-throttled", severity, rank, run);
        finding.text = fmt::format(
            "The container's CPU quota stopped the process in {:.0f} % of the quota's periods. "
            "Raise the quota, or use fewer workers and threads.",
            100 * share);
        finding.evidence = {{"throttled_share", share}, {"cores", run.cores.value_or(0)}};
        finding.fix = {.code = "docker run --cpus N ...; Kubernetes: resources.limits.cpu"};
        finding.gain = gain;
        finding.confidence = 0.7;
        findings.push_back(finding);
    });
}

std::vector<Finding> stolen(const JudgedRun& records) {
    return for_ranks(records, [](const RankRecords& rank, const RunSummary& run, std::vector<Finding>& findings) {
        const double share = mean_of(rank, &IntervalEntry::steal_share).value_or(0);
        constexpr double kWarn = 0.1;
        if (share < kWarn) {
            return;
        }
        const auto [gain, severity] = host_gain(rank, run, share, 0.2);
        Finding finding = finding_of("cpu-steal", severity, rank, run);
        finding.text = fmt::format("The hypervisor gave {:.0f} % of the cores' time to other machines.", 100 * share);
        finding.evidence = {{"steal_share", share}};
        finding.fix = {.code = "use an instance with dedicated cores"};
        finding.gain = gain;
        finding.confidence = 0.7;
        findings.push_back(finding);
    });
}

double thread_speedup(const RankRecords& rank) {
    return std::clamp(rank.facts.train.thread_speedup.value_or(1), 0.001, 1.0);
}

double share_of_passes(const RunSummary& run) {
    return run.of(Phase::forward) + run.of(Phase::backward) + run.of(Phase::optimizer);
}

// Of the time, as an estimate: half of what is lost if all operations are as small as those that were measured.
double lost_to_threads(const RankRecords& rank, const RunSummary& run) {
    constexpr double kSlower = 0.5;
    const double speed = thread_speedup(rank);
    const bool wait = run.on_cpu && rank.facts.train.threads.value_or(1) > 1 && speed <= kSlower;
    return wait ? share_of_passes(run) * (1 - speed) / 2 : 0;
}

std::vector<Finding> oversubscribed(const JudgedRun& records) {
    return for_ranks(records, [](const RankRecords& rank, const RunSummary& run, std::vector<Finding>& findings) {
        const double lost = lost_to_threads(rank, run);
        if (lost < kHostGain) {
            return;
        }
        Finding finding = finding_of("oversubscription", severity_of_lost(lost), rank, run);
        finding.text = fmt::format(
            "Torch's {} threads wait for each other, because something else wants their cores: a small operation takes "
            "{:.0f} times as long as on one thread. Train with one thread.",
            *rank.facts.train.threads, 1 / thread_speedup(rank));
        finding.evidence = {{"passes_share", share_of_passes(run)}, {"thread_speedup", thread_speedup(rank)}};
        finding.fix.code = "torch.set_num_threads(1)  # or OMP_NUM_THREADS=1 in the environment";
        finding.gain = gain_of_share(2 * lost, 0);
        finding.confidence = 0.6;
        findings.push_back(finding);
    });
}

std::vector<Finding> other_load(const JudgedRun& records) {
    return for_ranks(records, [](const RankRecords& rank, const RunSummary& run, std::vector<Finding>& findings) {
        if (!run.cores || !run.busy_share || !run.process_cores) {
            return;
        }
        const double ours =
            *run.process_cores * std::max(1, rank.facts.host.ranks.value_or(1)) / *rank.facts.host.cores;
        const double others = *run.busy_share - ours;
        constexpr double kWarn = 0.3;
        constexpr double kFull = 0.9;
        if (others < kWarn || *run.busy_share < kFull) {
            return;
        }
        const auto [gain, severity] = host_gain(rank, run, others, 0.2);
        Finding finding = finding_of("other-processes", severity, rank, run);
        if (severity_of_lost(lost_to_threads(rank, run)) == Severity::critical) {
            finding.severity = Severity::info;  // the program can do something about it
        }
        finding.text = fmt::format(
            "Other processes took {:.0f} % of the cores' time, and no core was free. Stop them, or "
            "measure again when they are done.",
            100 * others);
        finding.evidence = {{"others_share", others}, {"cores_busy_share", *run.busy_share}};
        finding.fix = {.code = "stoker top"};
        finding.gain = gain;
        finding.confidence = 0.8;
        findings.push_back(finding);
    });
}

// Settings of the run that can give memory back. A queue of fewer than three batches is too short (no-prefetch).
std::vector<RecipeChange> less_memory(const RunFacts& facts) {
    constexpr int kEnough = 3;
    std::vector<RecipeChange> changes;
    if (facts.data.prefetch.value_or(0) > kEnough) {
        changes.push_back({"data.prefetch", fmt::to_string(kEnough)});
    }
    if (facts.data.cache == "ram") {
        changes.push_back({"data.cache", "\"none\""});
    }
    const int accumulate = std::clamp(facts.train.accumulate.value_or(1), 1, 1 << 20);
    // The parts of a batch are computed one by one, but loaded together.
    if (changes.empty() && facts.device.type != "cuda" && facts.train.batch_size.value_or(0) >= 2 * accumulate) {
        changes.push_back({"train.accumulate", fmt::to_string(2 * accumulate)});
    }
    return changes;
}

std::vector<Finding> memory_pressure(const JudgedRun& records) {
    return for_ranks(records, [](const RankRecords& rank, const RunSummary& run, std::vector<Finding>& findings) {
        double most = 0;
        double faults = 0;
        double seconds = 0;
        for (const IntervalEntry& interval : rank.intervals) {
            most = std::max(most, static_cast<double>(interval.rss_bytes.value_or(0)));
            faults += static_cast<double>(interval.major_faults.value_or(0));
            seconds += interval.seconds;
        }
        const double swap = mean_of(rank, &IntervalEntry::swap_in_bytes_per_second).value_or(0);
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
            return;
        }
        Finding finding = finding_of("memory-pressure",
                                     share >= kAlmostAll || thrashes ? Severity::critical : Severity::warn, rank, run);
        finding.text = fmt::format(
            "{} {:.0f} % of the memory that {} may use{}. Lower data.cache_bytes, data.prefetch or data.batch_size.",
            ranks > 1 ? fmt::format("The {} processes of this host use about", ranks) : "The process uses", 100 * share,
            ranks > 1 ? "they" : "it", thrashes ? ", and pages come back from the disk all the time" : "");
        finding.evidence = {{"memory_share", share},
                            {"swap_in_bytes_per_second", swap},
                            {"major_faults_per_second", seconds > 0 ? faults / seconds : 0}};
        finding.fix = {.recipe = less_memory(rank.facts), .code = "a smaller cache, prefetch or batch"};
        finding.gain = thrashes ? Gain{1.0, 1.3, 3.0} : Gain{};
        finding.confidence = 0.7;
        findings.push_back(finding);
    });
}

std::vector<Finding> many_workers(const JudgedRun& records) {
    return for_ranks(records, [](const RankRecords& rank, const RunSummary& run, std::vector<Finding>& findings) {
        const int workers = rank.facts.data.workers.value_or(0);
        constexpr double kFactor = 2;
        constexpr double kFull = 0.9;
        constexpr double kLost = 0.05;  // of the time: in Python, where workers are processes
        constexpr double kMuch = 0.2;
        constexpr int kUsual = 4;  // on a machine of one core, workers that read ahead still help
        const double lost = lost_to_extra_workers(rank, run);
        const bool full = lost >= kLost || run.busy_share.value_or(0) >= kFull;
        if (!run.cores || workers < kUsual || workers <= kFactor * *run.cores || !full) {
            return;
        }
        const int fewer = std::max(1, static_cast<int>(*run.cores));
        Finding finding = finding_of("many-workers", Severity::info, rank, run);
        finding.text = fmt::format(
            "{} workers share {:.0f} cores, which are all busy: they bring no more than {} would, "
            "and each takes memory.",
            workers, *run.cores, fewer);
        finding.evidence = {{"workers", static_cast<double>(workers)},
                            {"cores", *run.cores},
                            {"cores_busy_share", run.busy_share.value_or(0)}};
        finding.fix = {.recipe = {{"data.workers", fmt::to_string(fewer)}},
                       .code = fmt::format("DataLoader(..., num_workers={})", fewer)};
        finding.gain = {1.0, 1.0, 1.05};  // workers are threads that sleep while the queue is full
        if (lost >= kLost) {
            finding.severity = lost >= kMuch ? Severity::critical : Severity::warn;
            finding.text = fmt::format(
                "{} worker processes share {:.0f} cores. Starting and ending them takes {:.0f} % of the time, and the "
                "training thread waits for a core in {:.0f} % of it. Use {}.",
                workers, *run.cores, 100 * run.start_share, 100 * run.core_wait_share, fewer);
            finding.evidence.push_back({"start_share", run.start_share});
            finding.evidence.push_back({"core_wait_share", run.core_wait_share});
            finding.gain = gain_of_share(lost, 0.3);
        }
        finding.confidence = 0.7;
        findings.push_back(finding);
    });
}

std::vector<Finding> slow_precision(const JudgedRun& records) {
    std::vector<Finding> findings;
    for (const RankRecords& rank : records.ranks) {
        const RunSummary& run = records.summary(rank);
        constexpr double kSlower = 0.8;
        const double speed = rank.facts.device.half_speedup.value_or(1);
        const double passes = run.of(Phase::forward) + run.of(Phase::backward);
        const double lost = passes * (1 - speed);
        if (!run.on_cpu || speed > kSlower || lost < kHostGain) {
            continue;
        }
        const std::string& type = rank.facts.train.precision;
        Finding finding = finding_of("slow-precision", severity_of_lost(lost), rank, run);
        finding.text = fmt::format(
            "The model trains in {0}, in which a product of matrices takes {1:.1f} times as long on this CPU as in "
            "fp32. "
            "Train in fp32.",
            type, 1 / speed);
        finding.evidence = {{"passes_share", passes}, {"half_speedup", speed}};
        finding.fix = {.recipe = {{"train.precision", "\"fp32\""}},
                       .code = "outputs = model(inputs)  # without torch.autocast, with a model in float32"};
        // The passes do more than multiply matrices: up to 5 % of the time with an mlp, a convnet and a ResNet-18.
        const auto gain = [&](double other) { return 1 / (1 - passes * std::max(0.0, 1 - speed - other)); };
        finding.gain = {.low = gain(0.1), .expected = gain(0.04), .high = gain(0)};
        finding.confidence = 0.8;
        findings.push_back(finding);
    }
    return findings;
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

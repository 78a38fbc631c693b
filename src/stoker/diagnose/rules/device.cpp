// The GPU is there and does not work, or works more slowly than it could: waits, launches, precision.
#include "stoker/diagnose/rules/rule_families.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "stoker/diagnose/costly_calls.h"
#include "stoker/diagnose/rules/lost_time.h"
#include "stoker/diagnose/rules/run_summary.h"

namespace stoker {
namespace {

constexpr double kCopyWarn = 0.02;      // of the time, as for pageable copies
constexpr double kSyncWarn = 0.03;      // of the time
constexpr double kLaunchWarn = 0.10;    // of the time, the page's limit for gaps that nothing explains
constexpr double kShortKernelUs = 100;  // mean: a launch costs 5 to 10 us, so longer kernels hide it
constexpr double kEligibleWarn = 0.10;  // of the time, in operators that tensor cores could compute
constexpr double kBusyWarn = 0.5;       // of the time, the limit of Nsight and torch_tb_profiler

struct Syncs {
    std::vector<SyncEntry> places = {};
    double steps = 1;  // in which they were counted
    double count = 0;
    double us = 0;
};

// From the profile, or from the run's intervals.
Syncs syncs_of(const RankRecords& rank) {
    Syncs syncs{.steps = steps_of_syncs(rank)};
    if (rank.profile && !rank.profile->syncs.empty()) {
        syncs.places = rank.profile->syncs;
    } else {
        for (const IntervalEntry& interval : rank.intervals) {
            syncs.places.insert(syncs.places.end(), interval.syncs.begin(), interval.syncs.end());
        }
    }
    for (const SyncEntry& sync : syncs.places) {
        syncs.count += static_cast<double>(sync.count);
        syncs.us += sync.us;
    }
    return syncs;
}

std::optional<Finding> sync_points(const RunView&, const RankRecords& rank, const RunSummary& run) {
    const auto& [syncs, steps, count, us] = syncs_of(rank);
    const double lost = lost_to_syncs(rank, run);
    constexpr double kEachStep = 0.5;  // rarer waits are recommended
    if (syncs.empty() || count < kEachStep * steps || lost < kSyncWarn) {
        return std::nullopt;
    }
    const auto cost = [](const SyncEntry& sync) { return sync.idle_us.value_or(sync.us); };
    const SyncEntry& worst = *std::ranges::max_element(syncs, {}, cost);
    Finding finding{.severity = severity_of_lost(lost)};
    finding.place = worst.place;
    finding.evidence = {{"syncs_per_step", count / steps}, {"sync_us_per_step", us / steps}, {"lost_share", lost}};
    if (rank.profile && rank.profile->idle_during) {
        finding.add("recoverable_us_per_step", lost * rank.profile->span_us / steps_of(rank));
    } else if (run.steps > 0) {
        finding.add("recoverable_us_per_step", 1e6 * lost * run.seconds / static_cast<double>(run.steps));
    }
    finding.gain = gain_of_share(lost, 0.4);
    finding.confidence = 0.8;
    return finding;
}

// Kernels that compute. Those of NCCL are long because they wait for other ranks.
struct Kernels {
    double count = 0;
    double us = 0;
    double mean_us() const { return count > 0 ? us / count : 0; }
};

Kernels computing_kernels(const RankRecords& rank) {
    Kernels kernels{.count = static_cast<double>(rank.profile->gpu->kernels), .us = rank.profile->gpu->kernel_us};
    for (const CollectiveEntry& collective : rank.profile->collectives) {
        if (collective.backend == "nccl") {
            kernels.count -= static_cast<double>(collective.count);
            kernels.us -= collective.us;
        }
    }
    return {.count = std::max(kernels.count, 0.0), .us = std::max(kernels.us, 0.0)};
}

bool is_launch_bound(const RankRecords& rank, const RunSummary& run) {
    constexpr double kMinKernels = 20;  // in a step
    if (!rank.profile || !rank.profile->gpu || lost_to_launches(rank, run) < kLaunchWarn) {
        return false;
    }
    const Kernels kernels = computing_kernels(rank);
    return kernels.mean_us() < kShortKernelUs && kernels.count >= kMinKernels * steps_of(rank);
}

// Whether a run without a profile shows that the GPU is done before the host: after steps, or when the host waits for
// it. Adds how. False if the GPU is the limit, or if nothing shows it. A full launch queue (1,024 launches) hides a
// slow GPU from waits for all but a part of a step, the smaller the more a step launches. A watched program must wait
// in each step, because not all of its waits are seen.
bool gpu_is_done(const RankRecords& rank, const RunSummary& run, Finding& finding) {
    constexpr double kEachStep = 0.9;
    constexpr double kLeft = 0.1;  // of a micro-batch, in a wait
    if (run.gpu_is_ahead()) {
        finding.variant = "ahead";
        finding.add("gpu_done_share", run.gpu_done_share);
        return true;
    }
    const auto& [syncs, steps, count, us] = syncs_of(rank);
    const double parts = static_cast<double>(run.steps) * micro_batches(rank);
    if (count == 0 || (in_python(rank) && count < kEachStep * steps) ||
        us / count > kLeft * 1e6 * run.seconds / parts) {
        return false;
    }
    const SyncEntry& longest = *std::ranges::max_element(syncs, {}, &SyncEntry::us);
    finding.variant = "done";
    finding.place = longest.place;
    finding.add("syncs_per_step", count / steps);
    finding.add("wait_us", longest.us / static_cast<double>(longest.count));
    return true;
}

// Without a profile of the GPU: the launches take much of the time, and the GPU has worked off all of them so far, so
// the host is slower. The GPU may also work while the host waits for a batch or a copy, so these must be short against
// the launches. Of Stoker's runs those are judged that could be graphs. How long the GPU works is not known: at worst
// nothing is gained.
std::optional<Finding> launch_bound_by_host(const RunView& records, const RankRecords& rank, const RunSummary& run) {
    constexpr double kShare = 0.05;  // of the time, in the waits
    constexpr double kWarn = 0.3;    // of the time, in the launches
    constexpr double kOthers = 0.5;  // of the launches: waits for batches, copies and the device
    const bool judged =
        in_python(rank) ? rank.facts.train.compiled != "compile" : records.sets("train.compile", "none");
    const double host = run.of(Phase::forward) + run.of(Phase::backward) + run.of(Phase::optimizer);
    const double others = run.of(Phase::wait) + run.of(Phase::copy) + run.of(Phase::sync);
    if (!judged || !run.long_enough() || run.of(Phase::sync) > kShare || host < kWarn || others > kOthers * host) {
        return std::nullopt;
    }
    Finding finding{.severity = severity_of_lost(host / 2)};
    finding.evidence = {{"host_share", host}};
    if (!gpu_is_done(rank, run, finding)) {
        return std::nullopt;
    }
    finding.gain = gain_of_share(host, 0);
    finding.confidence = 0.5;
    return finding;
}

std::optional<Finding> launch_bound(const RunView& records, const RankRecords& rank, const RunSummary& run) {
    if (!rank.profile && records.ranks.size() == 1) {
        return launch_bound_by_host(records, rank, run);
    }
    if (!is_launch_bound(rank, run)) {
        return std::nullopt;
    }
    const double lost = lost_to_launches(rank, run);
    const GpuEntry& gpu = *rank.profile->gpu;
    const Kernels kernels = computing_kernels(rank);
    Finding finding{.severity = severity_of_lost(lost)};
    finding.variant = 2 * gpu.graph_kernels >= gpu.kernels ? "graphs" : "";
    finding.evidence = {
        {"lost_share", lost}, {"kernels_per_step", kernels.count / steps_of(rank)}, {"kernel_us", kernels.mean_us()}};
    finding.add("launch_delay_us", gpu.launch_delay_us);
    finding.gain = gain_of_share(lost, 0.3);
    finding.confidence = 0.75;
    return finding;
}

// Matrix products and convolutions, which tensor cores compute.
bool is_eligible(std::string_view op) {
    constexpr std::array<std::string_view, 13> kNames = {"aten::mm",
                                                         "aten::addmm",
                                                         "aten::bmm",
                                                         "aten::baddbmm",
                                                         "aten::matmul",
                                                         "aten::linear",
                                                         "aten::conv2d",
                                                         "aten::conv1d",
                                                         "aten::conv3d",
                                                         "aten::cudnn_convolution",
                                                         "aten::convolution_backward",
                                                         "aten::_convolution",
                                                         "aten::miopen_convolution"};
    return std::ranges::find(kNames, op) != kNames.end();
}

std::optional<Finding> fp32_on_tensor_cores(const RunView&, const RankRecords& rank, const RunSummary& run) {
    if (!rank.profile || !rank.profile->gpu || !rank.facts.device.tensor_cores.value_or(false)) {
        return std::nullopt;
    }
    double eligible = 0;
    for (const OperatorEntry& op : rank.profile->operators) {
        eligible += is_eligible(op.name) && !is_half(op.types) ? op.device_us : 0;
    }
    const double share = share_of_span(rank, eligible);
    const double tensor_cores = rank.profile->gpu->tensor_core_us;
    constexpr double kUnused = 0.1;  // of the eligible time
    if (share < kEligibleWarn || tensor_cores >= kUnused * eligible) {
        return std::nullopt;
    }
    // Devices of compute capability 7 have neither bfloat16 nor TF32.
    const std::string& name = rank.facts.device.name;
    constexpr std::array<std::string_view, 8> kHalf = {"V100",     "T4",       "TITAN V",  "TITAN RTX",
                                                       "RTX 2060", "RTX 2070", "RTX 2080", "Quadro RTX"};
    const bool fp16 =
        std::ranges::any_of(kHalf, [&](std::string_view part) { return name.find(part) != std::string::npos; });
    Finding finding{.severity = severity_of_lost(share / 2)};
    finding.variant = fp16 ? "fp16" : "";
    finding.evidence = {{"eligible_share", share}, {"eligible_us", eligible}, {"tensor_core_us", tensor_cores}};
    // At worst twice as fast if the GPU is the limit; not faster if the host is.
    const bool host_bound = is_launch_bound(rank, run);
    finding.gain = {.low = host_bound ? 1.0 : 1 / (1 - share * (1 - 1 / 1.5)),
                    .expected = 1 / (1 - share * (1 - 1 / 2.5)),
                    .high = 1 / (1 - share * (1 - 1 / 6.0))};
    finding.confidence = host_bound ? 0.5 : 0.8;
    return finding;
}

// The phase of the host in which the GPU is idle most.
Phase idlest_phase(const RankRecords& rank, const RunSummary& run) {
    Phase most = Phase::unmeasured;
    for (std::size_t i = 0; i < kPhases; ++i) {
        const auto phase = static_cast<Phase>(i);
        most = lost_share(rank, run, phase) > lost_share(rank, run, most) ? phase : most;
    }
    return most;
}

std::optional<Finding> gpu_idle(const RunView&, const RankRecords& rank, const RunSummary& run) {
    const double idle = idle_share(rank);
    if (idle <= 1 - kBusyWarn) {
        return std::nullopt;
    }
    double host = 0;
    for (std::size_t i = 0; i < kPhases; ++i) {
        host += lost_share(rank, run, static_cast<Phase>(i));
    }
    constexpr double kInputWarn = 0.05;
    const bool own = host < idle / 2;
    const bool explained = own || is_launch_bound(rank, run) || lost_share(rank, run, Phase::wait) >= kInputWarn ||
                           lost_share(rank, run, Phase::copy) >= kCopyWarn || lost_to_syncs(rank, run) >= kSyncWarn;
    Finding finding{.severity = explained ? Severity::info : Severity::warn};
    finding.evidence = {{"busy_share", 1 - idle}};
    finding.confidence = 0.5;
    if (own) {  // before kernels that are launched already
        finding.variant = "queued";
        finding.add("queued_share", idle - host);
    } else {
        const Phase phase = idlest_phase(rank, run);
        const double share = lost_share(rank, run, phase);
        finding.place = phase_name(phase);
        finding.add("largest_cause_share", share);
        finding.gain = gain_of_share(share, 0);
    }
    return finding;
}

std::optional<Finding> cudnn_search(const RunView&, const RankRecords& rank, const RunSummary&) {
    if (!rank.profile) {
        return std::nullopt;
    }
    std::set<std::string_view> sizes;
    double calls = 0;
    double kernels = 0;
    double us = 0;
    for (const OperatorEntry& op : rank.profile->operators) {
        if (op.name == "aten::cudnn_convolution") {
            sizes.insert(op.shapes);
            calls += static_cast<double>(op.count);
            kernels += static_cast<double>(op.kernels);
            us += op.self_us;
        }
    }
    constexpr double kTried = 5;  // kernels in a call; a convolution needs one to three
    constexpr double kNeeded = 2;
    constexpr double kWarn = 0.05;
    const double share = share_of_span(rank, us);
    if (calls == 0 || kernels < kTried * calls || share < kWarn) {
        return std::nullopt;
    }
    const double saved = share * (1 - kNeeded * calls / kernels);
    return Finding{.severity = severity_of_lost(saved),
                   .evidence = {{"kernels_per_convolution", kernels / calls},
                                {"input_sizes", static_cast<double>(sizes.size())},
                                {"convolution_share", share}},
                   .gain = gain_of_share(saved, 0.5),
                   .confidence = 0.7};
}

}  // namespace

std::span<const Rule> device_rules() {
    static constexpr std::array kRules = {
        Rule{"sync-points", "the host waits for the device in each second step or more, which costs 3 % of the time",
             "keep values on the device, read them every 50 steps", sync_points},
        Rule{"launch-bound",
             "the GPU waits for launches for 10 % of the time, and kernels take less than 100 us; without a profile, "
             "launches take 30 % of the time, and where the host waits for the GPU, or when a step ends, it is done "
             "within a tenth of a step",
             "a CUDA graph (`train.compile`), a fused optimizer, a larger batch", launch_bound, Needs::gpu},
        Rule{"fp32-on-tensor-cores",
             "operators that tensor cores could compute take 10 % of the time and do not use them",
             "mixed precision (`train.precision`)", fp32_on_tensor_cores, Needs::gpu},
        Rule{"gpu-idle", "the GPU works for less than 50 % of the time; a warning if no other rule explains it",
             "follow the account of the idle time", gpu_idle, Needs::gpu},
        Rule{"cudnn-search", "convolutions launch 5 kernels a call and take 5 % of the time",
             "`torch.backends.cudnn.benchmark = False`, or few input sizes", cudnn_search, Needs::gpu},
    };
    return kRules;
}

}  // namespace stoker

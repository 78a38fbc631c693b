// The GPU is there and does not work, or works more slowly than it could: waits, launches, precision.
#include "stoker/diagnose/rules/rule_families.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "stoker/diagnose/costly_calls.h"
#include "stoker/diagnose/rules/lost_time.h"
#include "stoker/diagnose/rules/python_fix.h"
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
};

// Of the profile, or of the run's intervals.
Syncs syncs_of(const RankRecords& rank) {
    if (rank.profile && !rank.profile->syncs.empty()) {
        return {.places = rank.profile->syncs, .steps = steps_of_syncs(rank)};
    }
    Syncs syncs{.steps = steps_of_syncs(rank)};
    for (const IntervalEntry& interval : rank.intervals) {
        syncs.places.insert(syncs.places.end(), interval.syncs.begin(), interval.syncs.end());
    }
    return syncs;
}

// In each step GradScaler reads whether a gradient overflowed. A fused optimizer reads it on the GPU.
std::string scaler_code(const RankRecords& rank, std::string_view place) {
    if (place.find("(get_scale)") != place.npos) {
        return "if step % 50 == 0: scaler.get_scale()  # it reads the scale back from the GPU";
    }
    if (faster_kernel(rank) != "fused") {
        return "torch.autocast(\"cuda\", torch.bfloat16)  # needs no GradScaler, which reads back in each step";
    }
    const std::string& name = rank.facts.train.optimizer;
    return fmt::format("torch.optim.{}(..., fused=True)  # GradScaler then reads nothing back; bf16 needs no scaler",
                       name.empty() ? "AdamW" : name);
}

// What to write instead of what waits.
std::string sync_code(const RankRecords& rank, std::string_view place) {
    constexpr std::array<std::string_view, 4> kSizes = {"nonzero", "masked_select", "unique", "aten::index"};
    if (std::ranges::any_of(kSizes, [&](std::string_view name) { return place.find(name) != place.npos; })) {
        return "y = torch.where(mask, x, 0)  # sizes that depend on values are waited for: x[mask], nonzero(), "
               "unique()";
    }
    if (place.find("grad_scaler.py") != place.npos) {
        return scaler_code(rank, place);
    }
    return "total_loss += loss.detach()  # and total_loss.item() every 50 steps only";
}

std::vector<Finding> sync_points(const JudgedRun& records) {
    std::vector<Finding> findings;
    for (const RankRecords& rank : records.ranks) {
        const RunSummary& run = records.summary(rank);
        const auto& [syncs, steps] = syncs_of(rank);
        const double lost = lost_to_syncs(rank, run);
        double count = 0;
        double us = 0;
        for (const SyncEntry& sync : syncs) {
            count += static_cast<double>(sync.count);
            us += sync.us;
        }
        constexpr double kEachStep = 0.5;  // rarer waits are what is recommended
        if (syncs.empty() || count < kEachStep * steps || lost < kSyncWarn) {
            continue;
        }
        const auto cost = [](const SyncEntry& sync) { return sync.idle_us.value_or(sync.us); };
        const SyncEntry& worst = *std::ranges::max_element(syncs, {}, cost);
        Finding finding = finding_of("sync-points", severity_of_lost(lost), rank, run);
        finding.text = fmt::format(
            "The host waits for the GPU {:.1f} times in a step, mostly in {}, and the GPU then has nothing to do for "
            "{:.0f} % of the time. Keep such values on the GPU and read them every 50 steps.",
            count / steps, worst.place, 100 * lost);
        finding.evidence = {{"syncs_per_step", count / steps}, {"sync_us_per_step", us / steps}, {"lost_share", lost}};
        if (rank.profile && rank.profile->idle_during) {
            finding.evidence.push_back({"recoverable_us_per_step", lost * rank.profile->span_us / steps_of(rank)});
        } else if (run.steps > 0) {
            finding.evidence.push_back(
                {"recoverable_us_per_step", 1e6 * lost * run.seconds / static_cast<double>(run.steps)});
        }
        finding.fix.code = sync_code(rank, worst.place);
        finding.gain = gain_of_share(lost, 0.4);
        finding.confidence = 0.8;
        findings.push_back(finding);
    }
    return findings;
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

// In words, how a run without a profile shows that the GPU is done before the host: seen after steps, or where the host
// waits for it. Empty where the GPU is the limit, or nothing shows it. A full launch queue (1,024 launches) hides a
// slow GPU from waits for all but a part of a step, the smaller the more a step launches. A watched program must wait
// in each step, because not all of its waits are seen.
std::string gpu_is_done(const RankRecords& rank, const RunSummary& run, std::vector<Evidence>& evidence) {
    constexpr double kEachStep = 0.9;
    constexpr double kLeft = 0.1;  // of a micro-batch, in a wait
    if (run.gpu_is_ahead()) {
        evidence.push_back({"gpu_done_share", *run.gpu_done_share});
        return "when a step ends, the GPU has done its work";
    }
    const auto& [syncs, steps] = syncs_of(rank);
    double count = 0;
    double us = 0;
    for (const SyncEntry& sync : syncs) {
        count += static_cast<double>(sync.count);
        us += sync.us;
    }
    const double micro_batches = static_cast<double>(run.steps) * std::max(1, rank.facts.train.accumulate.value_or(1));
    if (count == 0 || (in_python(rank) && count < kEachStep * steps) ||
        us / count > kLeft * 1e6 * run.seconds / micro_batches) {
        return "";
    }
    const SyncEntry& longest = *std::ranges::max_element(syncs, {}, &SyncEntry::us);
    const double wait_us = longest.us / static_cast<double>(longest.count);
    evidence.push_back({"syncs_per_step", count / steps});
    evidence.push_back({"wait_us", wait_us});
    return fmt::format("where it waits for the GPU ({}), the GPU is done after {:.2f} ms", longest.place,
                       wait_us / 1e3);
}

// Without a profile of the GPU: the launches take much of the time, and the GPU has worked off all of them so far, so
// the host is slower. The GPU may also work while the host waits for a batch or a copy, so these must be short against
// the launches. Of Stoker's runs those are judged that could be graphs. How long the GPU works is not known: at worst
// nothing is gained.
std::optional<Finding> launch_bound_by_host(const JudgedRun& records, const RankRecords& rank, const RunSummary& run) {
    constexpr double kShare = 0.05;  // of the time, in the waits
    constexpr double kWarn = 0.3;    // of the time, in the launches
    constexpr double kOthers = 0.5;  // of the launches: waits for batches, copies and the device
    const auto compile = records.recipe.find("train.compile");
    const bool judged = in_python(rank) ? rank.facts.train.compiled != "compile"
                                        : compile != records.recipe.end() && compile->second == "none";
    const double host = run.of(Phase::forward) + run.of(Phase::backward) + run.of(Phase::optimizer);
    const double others = run.of(Phase::wait) + run.of(Phase::copy) + run.of(Phase::sync);
    if (!judged || !run.long_enough() || run.of(Phase::sync) > kShare || host < kWarn || others > kOthers * host) {
        return std::nullopt;
    }
    Finding finding = finding_of("launch-bound", severity_of_lost(host / 2), rank, run);
    finding.evidence = {{"host_share", host}};
    const std::string done = gpu_is_done(rank, run, finding.evidence);
    if (done.empty()) {
        return std::nullopt;
    }
    finding.text = fmt::format(
        "The host needs longer for a step than the GPU: forward, backward and optimizer take it {:.0f} % of the time, "
        "and {}. Capture the step as a CUDA graph, or use a larger batch.",
        100 * host, done);
    if (in_python(rank)) {
        finding.fix.code = "model = torch.compile(model, mode=\"reduce-overhead\")";
    } else {
        finding.fix.recipe = {{"train.compile", "\"auto\""}};
    }
    finding.gain = gain_of_share(host, 0);
    finding.confidence = 0.5;
    return finding;
}

std::vector<Finding> launch_bound(const JudgedRun& records) {
    return for_gpus(records, [&](const RankRecords& rank, const RunSummary& run, std::vector<Finding>& findings) {
        if (!rank.profile && records.ranks.size() == 1) {
            if (auto finding = launch_bound_by_host(records, rank, run)) {
                findings.push_back(*std::move(finding));
            }
            return;
        }
        if (!is_launch_bound(rank, run)) {
            return;
        }
        const double lost = lost_to_launches(rank, run);
        const GpuEntry& gpu = *rank.profile->gpu;
        const Kernels kernels = computing_kernels(rank);
        Finding finding = finding_of("launch-bound", severity_of_lost(lost), rank, run);
        const bool graphs = 2 * gpu.graph_kernels >= gpu.kernels;
        finding.text = fmt::format(
            "The GPU waits for launches for {:.0f} % of the time: {:.0f} kernels in a step, of {:.0f} us each, are "
            "shorter than the host needs to launch them. {}, or use a larger batch.",
            100 * lost, kernels.count / steps_of(rank), kernels.mean_us(),
            graphs ? "CUDA graphs launch most of them: capture the rest of the step in the same graph"
                   : "Capture the step as a CUDA graph");
        finding.evidence = {{"lost_share", lost},
                            {"kernels_per_step", kernels.count / steps_of(rank)},
                            {"kernel_us", kernels.mean_us()}};
        if (gpu.launch_delay_us) {
            finding.evidence.push_back({"launch_delay_us", *gpu.launch_delay_us});
        }
        finding.fix = {.recipe = {{"train.compile", "\"auto\""}},
                       .code = graphs ? "with torch.cuda.graph(graph): ...  # one for forward, backward and optimizer"
                                      : "model = torch.compile(model, mode=\"reduce-overhead\")"};
        finding.gain = gain_of_share(lost, 0.3);
        finding.confidence = 0.75;
        findings.push_back(finding);
    });
}

// Matrix products and convolutions: what tensor cores compute.
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

bool is_exported(const JudgedRun& records) {
    const auto file = records.recipe.find("model.export");
    return file != records.recipe.end() && !file->second.empty();
}

std::vector<Finding> fp32_on_tensor_cores(const JudgedRun& records) {
    return for_gpus(records, [&](const RankRecords& rank, const RunSummary& run, std::vector<Finding>& findings) {
        if (!rank.profile || !rank.profile->gpu || !rank.facts.device.tensor_cores.value_or(false)) {
            return;
        }
        double eligible = 0;
        for (const OperatorEntry& op : rank.profile->operators) {
            eligible += is_eligible(op.name) && !is_half(op.types) ? op.device_us : 0;
        }
        const double share = share_of_span(rank, eligible);
        const double tensor_cores = rank.profile->gpu->tensor_core_us;
        constexpr double kUnused = 0.1;  // of the eligible time
        if (share < kEligibleWarn || tensor_cores >= kUnused * eligible) {
            return;
        }
        // Devices of compute capability 7 have neither bfloat16 nor TF32.
        const std::string& name = rank.facts.device.name;
        constexpr std::array<std::string_view, 8> kHalf = {"V100",     "T4",       "TITAN V",  "TITAN RTX",
                                                           "RTX 2060", "RTX 2070", "RTX 2080", "Quadro RTX"};
        const bool half =
            std::ranges::any_of(kHalf, [&](std::string_view part) { return name.find(part) != std::string::npos; });
        Finding finding = finding_of("fp32-on-tensor-cores", severity_of_lost(share / 2), rank, run);
        finding.text = fmt::format(
            "Matrix products and convolutions take {:.0f} % of the time in fp32, and the tensor cores are unused. "
            "Train "
            "with mixed precision.",
            100 * share);
        finding.evidence = {{"eligible_share", share}, {"eligible_us", eligible}, {"tensor_core_us", tensor_cores}};
        finding.fix = {.recipe = {{"train.precision", half ? "\"fp16\"" : "\"bf16\""}},
                       .code = half ? "with torch.autocast(\"cuda\", torch.float16): ...  # with torch.amp.GradScaler"
                                    : "with torch.autocast(\"cuda\", torch.bfloat16): ..."};
        if (is_exported(records)) {  // its graph says what is computed in 16 bits
            finding.fix.recipe.clear();
            finding.fix.code += "  # in the model and the loss, before they are exported";
        }
        // Twice as fast at worst where the GPU is the limit; not at all where the host is.
        const bool host_bound = is_launch_bound(rank, run);
        finding.gain = {.low = host_bound ? 1.0 : 1 / (1 - share * (1 - 1 / 1.5)),
                        .expected = 1 / (1 - share * (1 - 1 / 2.5)),
                        .high = 1 / (1 - share * (1 - 1 / 6.0))};
        finding.confidence = host_bound ? 0.5 : 0.8;
        findings.push_back(finding);
    });
}

// Text, evidence and fix of a GPU that waits before kernels that are launched already.
void idle_by_itself(const RankRecords& rank, double queued, Finding& finding) {
    finding.text += fmt::format(
        "For {:.0f} % it waits before kernels that are launched already, as between those of a CUDA graph: larger "
        "batches make them longer.",
        100 * queued);
    finding.evidence.push_back({"queued_share", queued});
    finding.fix = double_batch(rank);
}

void idle_by_host(const RankRecords& rank, const RunSummary& run, Finding& finding) {
    Phase most = Phase::unmeasured;
    for (std::size_t i = 0; i < kPhases; ++i) {
        const auto phase = static_cast<Phase>(i);
        most = lost_share(rank, run, phase) > lost_share(rank, run, most) ? phase : most;
    }
    const double share = lost_share(rank, run, most);
    finding.text += fmt::format("It is idle mostly while the host is in the phase \"{}\" ({:.0f} %): begin there.",
                                phase_name(most), 100 * share);
    finding.evidence.push_back({"largest_cause_share", share});
    finding.fix.code = rank.facts.writer == kOwnWriter
                           ? "the trace in ui.perfetto.dev shows what the host does meanwhile"
                           : "torch.profiler.profile(..., with_stack=True)  # shows what the host does meanwhile";
    finding.gain = gain_of_share(share, 0);
}

std::vector<Finding> gpu_idle(const JudgedRun& records) {
    return for_gpus(records, [](const RankRecords& rank, const RunSummary& run, std::vector<Finding>& findings) {
        const double idle = idle_share(rank);
        if (idle <= 1 - kBusyWarn) {
            return;
        }
        double host = 0;
        for (std::size_t i = 0; i < kPhases; ++i) {
            host += lost_share(rank, run, static_cast<Phase>(i));
        }
        constexpr double kInputWarn = 0.05;
        const bool own = host < idle / 2;
        const bool explained = own || is_launch_bound(rank, run) || lost_share(rank, run, Phase::wait) >= kInputWarn ||
                               lost_share(rank, run, Phase::copy) >= kCopyWarn || lost_to_syncs(rank, run) >= kSyncWarn;
        Finding finding = finding_of("gpu-idle", explained ? Severity::info : Severity::warn, rank, run);
        finding.text = fmt::format("The GPU works for {:.0f} % of the time. ", 100 * (1 - idle));
        finding.evidence = {{"busy_share", 1 - idle}};
        finding.confidence = 0.5;
        if (own) {
            idle_by_itself(rank, idle - host, finding);
        } else {
            idle_by_host(rank, run, finding);
        }
        findings.push_back(finding);
    });
}

std::vector<Finding> cudnn_search(const JudgedRun& records) {
    return for_gpus(records, [](const RankRecords& rank, const RunSummary& run, std::vector<Finding>& findings) {
        if (!rank.profile) {
            return;
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
            return;
        }
        const double saved = share * (1 - kNeeded * calls / kernels);
        Finding finding = finding_of("cudnn-search", severity_of_lost(saved), rank, run);
        finding.text = fmt::format(
            "cuDNN tries algorithms again and again: {:.0f} kernels in each convolution, at {} input sizes. Turn the "
            "search off, or pad the inputs to a few sizes.",
            kernels / calls, sizes.size());
        finding.evidence = {{"kernels_per_convolution", kernels / calls},
                            {"input_sizes", static_cast<double>(sizes.size())},
                            {"convolution_share", share}};
        finding.fix.code = "torch.backends.cudnn.benchmark = False";
        finding.gain = gain_of_share(saved, 0.5);
        finding.confidence = 0.7;
        findings.push_back(finding);
    });
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
             "a CUDA graph (`train.compile`), a fused optimizer, a larger batch", launch_bound},
        Rule{"fp32-on-tensor-cores",
             "operators that tensor cores could compute take 10 % of the time and do not use them",
             "mixed precision (`train.precision`)", fp32_on_tensor_cores},
        Rule{"gpu-idle", "the GPU works for less than 50 % of the time; a warning if no other rule explains it",
             "follow the account of the idle time", gpu_idle},
        Rule{"cudnn-search", "convolutions launch 5 kernels a call and take 5 % of the time",
             "`torch.backends.cudnn.benchmark = False`, or few input sizes", cudnn_search},
    };
    return kRules;
}

}  // namespace stoker

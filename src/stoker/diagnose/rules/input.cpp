// The cost of the training thread's wait for batches, and the gain of a shorter one. wait_cause.cpp says why it waits:
// storage, decoding, augmentation, few workers, little prefetch.
#include "stoker/diagnose/rules/rule_families.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/statistics.h"
#include "stoker/base/url_secrets.h"
#include "stoker/diagnose/rules/lost_time.h"
#include "stoker/diagnose/rules/run_summary.h"
#include "stoker/diagnose/rules/wait_cause.h"

namespace stoker {
namespace {

Finding begin(const RunSummary& run) {
    Finding finding{.severity = run.input_wait() >= kWaitCritical ? Severity::critical : Severity::warn,
                    .evidence = {{"wait_share", run.input_wait()}}};
    finding.add("workers_idle_share", run.blocked_share());
    finding.add("cores", run.cores);
    finding.add("cores_busy_share", run.busy_share);
    return finding;
}

// Samples a second of this process, over the judged steps; 0: unknown.
double rate_of(const RankRecords& rank, const RunSummary& run) {
    double samples = 0;
    double seconds = 0;
    for (const StepEntry& step : rank.steps) {
        if (run.judges(step) && step.samples) {
            samples += static_cast<double>(*step.samples);
            seconds += seconds_of(step.host.total());
        }
    }
    return seconds > 0 ? samples / seconds : 0;
}

// If the training thread no longer waits, and each sample costs what stoker.Loader needs for it: while a step runs on a
// GPU, or of the same cores.
Gain gain_of_loader(const RankRecords& rank, double loader, double now, double wait_share) {
    const double rest = (1 - wait_share) / now;  // seconds a sample, as all that follow
    const double apart = 1 / std::max(rest, 1 / loader);
    const double together = 1 / (rest + 1 / loader);
    const double expected = (on_gpu(rank) ? apart : together) / now;
    return {.low = std::max(1.0, (1 + expected) / 2), .expected = std::max(1.0, expected), .high = apart / now};
}

// Offers stoker.Loader to a watched program if it was measured to give more, and takes its gain if that is
// larger, which needs no free core.
void offer_loader(const RankRecords& rank, const RunSummary& run, Finding& finding) {
    constexpr double kMore = 1.2;
    const double loader = rank.facts.data.stoker_samples_per_second.value_or(0);
    const double now = rate_of(rank, run);
    if (!in_python(rank) || now == 0 || loader < kMore * now) {
        return;
    }
    const Gain gain = gain_of_loader(rank, loader, now, run.of(Phase::wait));
    finding.add("samples_per_second", now);
    finding.add("stoker_samples_per_second", loader);
    finding.loader_is_best = gain.expected > finding.gain.expected;
    finding.with_loader = now * gain.expected;
    if (finding.loader_is_best) {
        finding.gain = gain;
        finding.severity = std::max(finding.severity, Severity::warn);
    }
}

// Whether a faster loader shortens the wait. Not for storage: stoker.Loader was measured when the files were in memory.
bool is_loaders(WaitCause cause) {
    return cause != WaitCause::storage && cause != WaitCause::startup && cause != WaitCause::prefetch;
}

// The finding of a rank that waits because of `kCause`, as `kDescribe` completes it.
template <WaitCause kCause, auto kDescribe>
std::optional<Finding> of_cause(const RunView& records, const RankRecords& rank, const RunSummary& run) {
    if (records.kind != "run" || wait_cause(rank, run) != kCause) {
        return std::nullopt;
    }
    Finding finding = begin(run);
    kDescribe(records, rank, run, finding);
    constexpr double kWorthIt = 1.05;
    if (finding.gain.high < kWorthIt) {
        finding.severity = Severity::info;
    }
    constexpr double kMostOfTheTime = 0.5;
    if (run.input_wait() >= kMostOfTheTime) {  // whatever the gain: such a run is not healthy
        finding.severity = std::max(finding.severity, Severity::warn);
    }
    if (is_loaders(kCause)) {
        offer_loader(rank, run, finding);
    }
    // Waits that the fix hardly shortens, as with busy cores, come after fixes that gain more.
    if (finding.gain.expected < kWorthIt) {
        finding.severity = std::min(finding.severity, Severity::warn);
    }
    return finding;
}

bool is_remote(const RankRecords& rank) {
    return is_url(rank.facts.data.path) || rank.facts.data.storage == "network";
}

// Enough for all stored samples, also those of the validation: the loaders share the cache by number. 0: unknown.
double cache_bytes(const RankRecords& rank) {
    constexpr double kMargin = 1.05;  // sample_bytes is the mean of a few
    const double samples = static_cast<double>(rank.facts.data.samples.value_or(0));
    const double all = samples + static_cast<double>(rank.facts.train.val_samples.value_or(0));
    return std::ceil(kMargin * all * rank.facts.data.sample_bytes.value_or(0));
}

constexpr double kDefaultCache = 4.0 * (1 << 30);  // data.cache_bytes of a recipe that does not set it

bool has_own_cache_size(const RunView& records) {
    const auto set = records.recipe.find("data.cache_bytes");
    return set != records.recipe.end() && set->second != "4GiB";
}

// The cache of stored bytes is large enough. If the recipe sets its size, that is assumed.
bool holds_all(const RunView& records, double bytes) {
    return records.sets("data.cache_as", "encoded") && (bytes <= kDefaultCache || has_own_cache_size(records));
}

// The share of the workers' time that packing as `dct` saves. The Huffman decoding of progressive JPEGs is not measured
// separately; it is about half of the decoding.
double entropy_saved(const RunSummary& run) {
    constexpr double kMeasured = 0.05;  // of the decoding
    const double entropy = share_of_workers(run, run.worker_seconds(Stage::entropy));
    return entropy > kMeasured * decode_share(run) ? entropy : decode_share(run) / 2;
}

// The share of the workers' time that packing JPEGs as `dct` saves, as packed runs of tests/ground_truth gained:
// Huffman decoding, and about a quarter of the rest. With AVX2 alone, unpacking the records takes about a fifth of what
// Huffman decoding took, and nothing else is saved.
double dct_saved(const RankRecords& rank, const RunSummary& run) {
    const double entropy = entropy_saved(run);
    const bool fast = rank.facts.host.avx512_vbmi2.value_or(true);
    return fast ? entropy + 0.25 * (decode_share(run) - entropy) : 0.8 * entropy;
}

// The epochs of the whole run; 0: unknown.
double epochs_of(const RunView& records) {
    const auto found = records.recipe.find("train.epochs");
    return found == records.recipe.end() ? 0 : std::strtod(found->second.c_str(), nullptr);
}

// The gain over a whole run of a cache that its first epoch fills.
Gain after_first_epoch(const Gain& gain, double epochs) {
    const auto whole = [&](double factor) { return epochs < 1 ? factor : epochs / (1 + (epochs - 1) / factor); };
    return {.low = whole(gain.low), .expected = whole(gain.expected), .high = whole(gain.high)};
}

// Cores that the process keeps busy while its one training thread loads data: threads of torch that wait for work in a
// loop, between operations that are too small to be divided. Worker processes have one thread each.
double spinning_cores(const RankRecords& rank, const RunSummary& run) {
    const double others = run.process_cores.value_or(0) - 1;
    return in_python(rank) && others > 0 ? others * run.of(Phase::wait) : 0;
}

void no_workers(const RunView&, const RankRecords& rank, const RunSummary& run, Finding& finding) {
    // The loading, which took `input_wait` of the time, is divided among the workers.
    const double spinning = spinning_cores(rank, run);
    finding.gain = gain_without_wait(run, useful_workers(run) / run.input_wait(), spinning * run.worker_span);
    constexpr double kWorker = 0.5;  // of a core
    if (spinning >= kWorker && saturated(run)) {
        finding.variant = "spinning";
        finding.add("spinning_cores", spinning);
    }
    finding.confidence = saturated(run) && !waits_asleep(run) ? 0.5 : 0.9;
}

void worker_startup(const RunView&, const RankRecords&, const RunSummary& run, Finding& finding) {
    finding.add("start_share", run.start_share);
    finding.gain = gain_of_share(run.start_share, 0.7);
    finding.confidence = 0.9;
}

void few_workers(const RunView&, const RankRecords& rank, const RunSummary& run, Finding& finding) {
    const double workers = rank.facts.data.workers.value();  // wait_cause has it
    finding.add("workers", workers);
    finding.gain = gain_without_wait(run, useful_workers(run) / workers);
    finding.confidence = 0.85;
}

// The cache that would hold the data, if there is one that does not hold them already.
bool find_cache(const RunView& records, const RankRecords& rank, Finding& finding) {
    const double bytes = cache_bytes(rank);  // each rank has its own cache
    const double memory = static_cast<double>(rank.facts.host.memory_bytes.value_or(0));
    const bool fits = bytes > 0 && bytes * std::max(1, rank.facts.host.ranks.value_or(1)) < memory / 2 &&
                      epochs_of(records) != 1;  // the first epoch reads everything
    const std::string_view kind = fits ? "ram" : is_remote(rank) ? "disk" : "";
    const bool has = rank.facts.data.cache == kind;
    if (kind.empty() || (has && holds_all(records, bytes))) {
        return false;
    }
    const bool sets_size = bytes > kDefaultCache || (bytes > 0 && has_own_cache_size(records));
    finding.variant = has ? "small" : kind;
    finding.wanted = sets_size ? static_cast<std::int64_t>(bytes) : 0;
    finding.place = kind;
    return true;
}

void storage_bound(const RunView& records, const RankRecords& rank, const RunSummary& run, Finding& finding) {
    finding.add("read_share_of_workers", read_share(run));
    // Work between waits runs on cold cores: once nothing waits, the workers' CPU time is left.
    const double on_core = std::max(run.worker_cpu(), 0.01 * run.worker_busy());
    finding.gain = gain_without_wait(run, std::max(speedup_of(read_share(run)), run.worker_busy() / on_core));
    if (find_cache(records, rank, finding)) {
        finding.gain = after_first_epoch(finding.gain, epochs_of(records));
    }
    finding.confidence = 0.8;
}

// Records that cost a worker less if a GPU decodes them. Not `dct-ans`: the worker decodes its groups in any case.
bool gains_from_gpu(const DataFacts& data) {
    return data.codec == "dct" || data.codec == "dct-zstd";
}

// Both decode with `auto`, also JPEGs of the index.
bool decodes_on_gpu(const DataFacts& data) {
    return data.decode_on == "device" || data.decode_on == "auto";
}

// Whether a GPU would decode dct records, as far as facts and recipe tell: the ops may forbid it.
bool gpu_can_decode(const RunView& records, const RankRecords& rank) {
    const DataFacts& data = rank.facts.data;
    return !in_python(rank) && rank.facts.device.type == "cuda" && data.decode != "fast" && data.cache == "none" &&
           !records.sets("data.channels", "1");
}

// Whether only the recipe's data.decode_on keeps the GPU from it.
bool keeps_gpu_from_decoding(const RunView& records, const RankRecords& rank) {
    return gains_from_gpu(rank.facts.data) && records.sets("data.decode_on", "cpu") && gpu_can_decode(records, rank);
}

// The share of a worker's time for a dct record that a GPU saves by decoding it, as docs/cuda.md measured it. The
// worker still reads, checks and copies it, and decompresses `dct-zstd`.
constexpr double kSavedByGpu = 0.84;
constexpr double kSavedByGpuOfZstd = 0.49;

// `ops`: the share of the workers' time that goes with the ops.
void decode_on_gpu(const RankRecords& rank, const RunSummary& run, double ops, Finding& finding) {
    const double decoding = rank.facts.data.codec == "dct" ? kSavedByGpu : kSavedByGpuOfZstd;
    const double saved = 1 - (1 - decoding) * (1 - ops);
    finding.variant = "gpu";
    finding.gain = gain_without_wait(run, speedup_of(saved), saved * run.worker_busy());
    finding.confidence = 0.6;
}

// The GPU decodes already: the work that is left for the workers grows with the images.
void smaller_images(const RunSummary& run, Finding& finding) {
    constexpr double kSaved = 0.5;  // with half of the pixels
    finding.variant = "smaller";
    finding.gain = gain_without_wait(run, speedup_of(kSaved * decode_share(run)));
    finding.confidence = 0.4;
}

void pack_for_decoding(const RunView& records, const RankRecords& rank, const RunSummary& run, Finding& finding) {
    const bool jpeg = rank.facts.data.codec == "jpeg";
    const bool gpu = jpeg && gpu_can_decode(records, rank) && !records.sets("data.decode_on", "cpu");
    finding.variant = gpu ? "dct-gpu" : jpeg ? "dct" : "raw";
    const auto gain_of = [&](double saved) {
        return gain_without_wait(run, speedup_of(saved), saved * run.worker_busy());
    };
    const double saved = jpeg ? dct_saved(rank, run) : decode_share(run);
    finding.gain = gain_of(saved);
    if (gpu) {  // unless the ops keep it from decoding
        const Gain shared = gain_of(saved + kSavedByGpu * (decode_share(run) - saved));
        finding.gain.expected = shared.expected;
        finding.gain.high = shared.high;
    }
    finding.confidence = 0.8;
}

void decode_bound(const RunView& records, const RankRecords& rank, const RunSummary& run, Finding& finding) {
    finding.add("decode_share_of_workers", decode_share(run));
    if (rank.facts.data.codec == "jpeg" && !in_python(rank)) {  // there it is not measured separately
        const double entropy = share_of_workers(run, run.worker_seconds(Stage::entropy));
        finding.add("entropy_share_of_workers", entropy);
    }
    if (keeps_gpu_from_decoding(records, rank)) {
        decode_on_gpu(rank, run, 0, finding);
    } else if (decodes_on_gpu(rank.facts.data) && rank.facts.data.codec != "jpeg") {  // which packing makes less work
        smaller_images(run, finding);
    } else {
        pack_for_decoding(records, rank, run, finding);
    }
}

void augment_bound(const RunView& records, const RankRecords& rank, const RunSummary& run, Finding& finding) {
    finding.add("augment_share_of_workers", augment_share(run));
    if (keeps_gpu_from_decoding(records, rank)) {
        decode_on_gpu(rank, run, augment_share(run), finding);
        return;
    }
    const double saved = augment_share(run) / 2;
    finding.gain = gain_without_wait(run, speedup_of(saved), saved * run.worker_busy());
    finding.confidence = 0.7;
}

// The speedup of a loader whose workers are never idle. If they are busy already, the cause is unknown, and so is the
// gain of a fix.
double idle_speedup(const RankRecords& rank, const RunSummary& run) {
    constexpr double kUnknown = 100;
    return workers_are_busy(rank, run) || run.worker_busy() <= 0 ? kUnknown
                                                                 : worker_capacity(rank, run) / run.worker_busy();
}

void no_prefetch(const RunView&, const RankRecords& rank, const RunSummary& run, Finding& finding) {
    finding.add("prefetch", static_cast<double>(*rank.facts.data.prefetch));
    finding.add("ready_batches", run.ready);
    finding.gain = gain_without_wait(run, idle_speedup(rank, run));
    finding.confidence = 0.8;
}

// The trainer waits, and the rules above do not know why. If it lacks a core for as long as it waits, that is why:
// its own threads and the workers take them from each other.
void slow_loader(const RunView&, const RankRecords& rank, const RunSummary& run, Finding& finding) {
    if (read_share(run) + decode_share(run) + augment_share(run) > 0) {  // else the workers lack clocks
        finding.add("read_share_of_workers", read_share(run));
        finding.add("decode_share_of_workers", decode_share(run));
        finding.add("augment_share_of_workers", augment_share(run));
    }
    finding.gain = gain_without_wait(run, idle_speedup(rank, run));
    const bool cores_are_full = !run.busy_share || saturated(run);
    if (cores_are_full && run.core_wait_share >= run.input_wait()) {
        finding.variant = "no-core";
        finding.add("core_wait_share", run.core_wait_share);
        finding.severity = Severity::info;
    }
    finding.confidence = 0.4;
}

// Mean wait of a step in the first epoch and in the later ones, without the first steps, which fill the pipeline.
struct EpochWaits {
    double first = 0;
    double later = 0;
    double first_share = 0;  // of the whole time
};

std::optional<EpochWaits> waits_by_epoch(const RankRecords& rank) {
    constexpr std::int64_t kStart = 3;
    double waits[2] = {};
    double steps[2] = {};
    double seconds = 0;
    for (const StepEntry& step : rank.steps) {
        seconds += std::chrono::duration<double>(step.host.total()).count();
        if (step.step > kStart) {
            const std::size_t at = step.epoch > 1 ? 1 : 0;
            waits[at] += std::chrono::duration<double>(step.host.times[static_cast<std::size_t>(Phase::wait)]).count();
            ++steps[at];
        }
    }
    if (steps[0] == 0 || steps[1] == 0 || seconds <= 0) {
        return std::nullopt;
    }
    return EpochWaits{.first = waits[0] / steps[0], .later = waits[1] / steps[1], .first_share = waits[0] / seconds};
}

std::optional<Finding> cold_cache(const RunView& records, const RankRecords& rank, const RunSummary&) {
    const std::optional<EpochWaits> waits = records.kind == "run" ? waits_by_epoch(rank) : std::nullopt;
    constexpr double kCold = 3;  // times the later waits
    if (!waits || waits->first_share < kWaitWarn || waits->first < kCold * waits->later ||
        rank.facts.data.path.starts_with("synth:")) {
        return std::nullopt;
    }
    return Finding{.evidence = {{"first_epoch_wait_ms", 1e3 * waits->first}, {"later_wait_ms", 1e3 * waits->later}},
                   .first_step = rank.steps.front().step,
                   .gain = gain_of_share(waits->first_share, 0.2),
                   .confidence = 0.6};
}

// A trace does not show the worker processes: only the cost of the wait is known.
std::optional<Finding> input_bound(const RunView& records, const RankRecords& rank, const RunSummary& run) {
    const double lost = lost_share(rank, run, Phase::wait);
    if (records.kind != "trace" || lost < kWaitWarn) {
        return std::nullopt;
    }
    const bool loads_itself = rank.facts.data.workers == 0 && rank.facts.writer != kOwnWriter;
    Finding finding{.severity = severity_of_lost(lost)};
    finding.variant = loads_itself ? "alone" : "";
    finding.evidence = {{"wait_share", run.of(Phase::wait)}, {"lost_share", lost}};
    if (loads_itself) {
        finding.add("workers", 0);
    }
    finding.gain = gain_of_share(lost, loads_itself ? 0.4 : 0.2);
    finding.confidence = loads_itself ? 0.9 : 0.7;
    return finding;
}

}  // namespace

std::span<const Rule> input_rules() {
    static constexpr std::array kRules = {
        Rule{"no-workers", "no loader workers, and the training thread waits for its own loading for 5 % of its time",
             "`data.workers`: one for each core that is free", of_cause<WaitCause::no_workers, no_workers>},
        Rule{"worker-startup", "worker processes of Python that start and end with each epoch take 5 % of the time",
             "`persistent_workers=True`", of_cause<WaitCause::startup, worker_startup>},
        Rule{"few-workers",
             "the trainer waits for 5 %, the workers are never idle, and there is room on free cores for 15 % more of "
             "them; with less room, if neither decoding nor the ops take 40 %",
             "more `data.workers`, up to the cores", of_cause<WaitCause::few_workers, few_workers>},
        Rule{"storage-bound",
             "the trainer waits, and the workers spend 40 % of their time in reads without using a core",
             "`data.cache = \"ram\"`, or `\"disk\"` for remote data; `stoker pack`, or a faster disk",
             of_cause<WaitCause::storage, storage_bound>},
        Rule{"decode-bound", "the trainer waits, and the workers spend 40 % of their time on decoding",
             "`stoker pack --codec dct` (JPEG) or `--codec raw`; more workers only where cores are free",
             of_cause<WaitCause::decode, decode_bound>},
        Rule{"augment-bound", "the trainer waits, and the workers spend 40 % of their time on `train_ops`",
             "crop and resize first, or store smaller images", of_cause<WaitCause::augment, augment_bound>},
        Rule{"no-prefetch", "the trainer waits while the workers are idle, and `data.prefetch` is 1 or 2",
             "`data.prefetch = 4`", of_cause<WaitCause::prefetch, no_prefetch>},
        Rule{"slow-loader",
             "the trainer waits for 5 % of its time, and no other rule knows why; info where all cores are busy and "
             "it has none for as long",
             "`stoker profile`", of_cause<WaitCause::unknown, slow_loader>},
        Rule{"cold-cache", "waits of the first epoch are 3 times those of later epochs", "`stoker pack`, or nothing",
             cold_cache},
        Rule{"input-bound",
             "in a trace of torch.profiler, waiting for the loader costs 5 % of the time (critical: 20 %)",
             "`num_workers`, one for each core that is free; else cheaper loading", input_bound},
    };
    return kRules;
}

}  // namespace stoker

// What to do about the training thread's wait for batches. wait_cause.cpp says why it waits: storage, decoding,
// augmentation, too few workers, too little prefetch.
#include "stoker/diagnose/rules/rule_families.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/pluralize.h"
#include "stoker/base/statistics.h"
#include "stoker/base/url_secrets.h"
#include "stoker/diagnose/rules/pack_command.h"
#include "stoker/diagnose/rules/run_summary.h"
#include "stoker/diagnose/rules/wait_cause.h"

namespace stoker {
namespace {

Finding begin(std::string_view rule, const RankRecords& rank, const RunSummary& run) {
    Finding finding =
        finding_of(rule, run.input_wait() >= kWaitCritical ? Severity::critical : Severity::warn, rank, run);
    finding.evidence = {{"wait_share", run.input_wait()}};
    if (const auto blocked = run.blocked_share()) {
        finding.evidence.push_back({"workers_idle_share", *blocked});
    }
    if (run.cores) {
        finding.evidence.push_back({"cores", *run.cores});
    }
    if (run.busy_share) {
        finding.evidence.push_back({"cores_busy_share", *run.busy_share});
    }
    return finding;
}

// A finding for each rank that waits because of `cause`.
template <typename Describe>
std::vector<Finding> for_cause(const JudgedRun& records, WaitCause cause, std::string_view rule,
                               const Describe& describe) {
    std::vector<Finding> findings;
    if (records.kind != "run") {
        return findings;
    }
    for (const RankRecords& rank : records.ranks) {
        const RunSummary& run = records.summary(rank);
        if (wait_cause(rank, run) == cause) {
            findings.push_back(begin(rule, rank, run));
            describe(rank, run, findings.back());
            constexpr double kWorthIt = 1.05;
            if (findings.back().gain.high < kWorthIt) {
                findings.back().severity = Severity::info;
            }
        }
    }
    return findings;
}

bool is_packed(const RankRecords& rank) {
    return rank.facts.data.format == "stk";
}

bool is_remote(const RankRecords& rank) {
    return is_url(rank.facts.data.path) || rank.facts.data.storage == "network";
}

// What holds all stored samples, those of the validation too: the loaders share the cache by their numbers. 0: unknown.
double cache_bytes(const RankRecords& rank) {
    constexpr double kMargin = 1.05;  // sample_bytes is the mean of a few
    const double samples = static_cast<double>(rank.facts.data.samples.value_or(0));
    const double all = samples + static_cast<double>(rank.facts.train.val_samples.value_or(0));
    return std::ceil(kMargin * all * rank.facts.data.sample_bytes.value_or(0));
}

constexpr double kDefaultCache = 4.0 * (1 << 30);  // data.cache_bytes of a recipe that does not set it

bool has_own_cache_size(const JudgedRun& records) {
    const auto set = records.recipe.find("data.cache_bytes");
    return set != records.recipe.end() && set->second != "4GiB";
}

// A cache of what is stored that is large enough; of an own size it is taken for granted.
bool holds_all(const JudgedRun& records, double bytes) {
    return recipe_sets(records, "data.cache_as", "encoded") && (bytes <= kDefaultCache || has_own_cache_size(records));
}

// The share of the workers' time that packing as `dct` saves. The Huffman decoding of progressive JPEGs is not measured
// by itself; it is about half of the decoding.
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

// Of the whole run; 0: unknown.
double epochs_of(const JudgedRun& records) {
    const auto found = records.recipe.find("train.epochs");
    return found == records.recipe.end() ? 0 : std::strtod(found->second.c_str(), nullptr);
}

// The gain over a whole run of a cache that its first epoch fills.
Gain after_first_epoch(const Gain& gain, double epochs) {
    const auto whole = [&](double factor) { return epochs < 1 ? factor : epochs / (1 + (epochs - 1) / factor); };
    return {.low = whole(gain.low), .expected = whole(gain.expected), .high = whole(gain.high)};
}

const char* saturation_text(const RunSummary& run) {
    return saturated(run) ? ", and all cores are busy: more workers will not help" : "";
}

std::vector<Finding> no_workers(const JudgedRun& records) {
    return for_cause(
        records, WaitCause::no_workers, "no-workers", [](const RankRecords&, const RunSummary& run, Finding& finding) {
            const int workers = useful_workers(run);
            finding.text = fmt::format(
                "The training thread loads the data itself, which takes {:.0f} % of its time. Let {} do it.",
                100 * run.input_wait(), pluralize(workers, "worker"));
            finding.fix = {.recipe = {{"data.workers", fmt::to_string(workers)}},
                           .code = fmt::format("DataLoader(..., num_workers={}, persistent_workers=True)", workers)};
            // What took `input_wait` of the time takes one of `workers` parts of it.
            finding.gain = gain_without_wait(run, workers / run.input_wait());
            finding.confidence = saturated(run) ? 0.5 : 0.9;
        });
}

std::vector<Finding> worker_startup(const JudgedRun& records) {
    return for_cause(records, WaitCause::startup, "worker-startup",
                     [](const RankRecords&, const RunSummary& run, Finding& finding) {
                         finding.evidence.push_back({"start_share", run.start_share});
                         finding.text = fmt::format(
                             "Worker processes start and end with each epoch, which takes {:.0f} % of the time. Keep "
                             "them.",
                             100 * run.start_share);
                         finding.fix.code = "DataLoader(..., persistent_workers=True)";
                         finding.gain = gain_of_share(run.start_share, 0.7);
                         finding.confidence = 0.9;
                     });
}

std::vector<Finding> few_workers(const JudgedRun& records) {
    return for_cause(
        records, WaitCause::few_workers, "few-workers",
        [](const RankRecords& rank, const RunSummary& run, Finding& finding) {
            const int workers = rank.facts.data.workers.value();  // wait_cause has it
            const int useful = useful_workers(run);
            finding.evidence.push_back({"workers", static_cast<double>(workers)});
            finding.text = fmt::format(
                "{} cannot keep up: the trainer waits for {:.0f} % of its time while {:.1f} of {:.0f} cores "
                "are free. Use {}.",
                pluralize(workers, "loader worker"), 100 * run.input_wait(), *run.free_cores(), *run.cores, useful);
            finding.fix = {.recipe = {{"data.workers", fmt::to_string(useful)}},
                           .code = fmt::format("DataLoader(..., num_workers={})", useful)};
            finding.gain = gain_without_wait(run, static_cast<double>(useful) / workers);
            finding.confidence = 0.85;
        });
}

std::vector<Finding> storage_bound(const JudgedRun& records) {
    return for_cause(
        records, WaitCause::storage, "storage-bound",
        [&records](const RankRecords& rank, const RunSummary& run, Finding& finding) {
            const double read = share_of_workers(run, run.worker_seconds(Stage::read));
            const double bytes = cache_bytes(rank);  // each rank has a cache of its own
            const double memory = static_cast<double>(rank.facts.host.memory_bytes.value_or(0));
            const bool fits = bytes > 0 && bytes * std::max(1, rank.facts.host.ranks.value_or(1)) < memory / 2 &&
                              epochs_of(records) != 1;  // the first epoch reads everything
            const std::string_view wanted = fits ? "ram" : is_remote(rank) ? "disk" : "none";
            const bool has = wanted != "none" && rank.facts.data.cache == wanted;
            const bool cache = wanted != "none" && !(has && holds_all(records, bytes));
            finding.evidence.push_back({"read_share_of_workers", read});
            finding.text = fmt::format(
                "Reading takes {:.0f} % of the workers' time while cores are idle: the storage is "
                "too slow. {}",
                100 * read,
                cache && has      ? "The cache does not hold all of the data."
                : cache && fits   ? "The data fit in memory: cache them there."
                : cache           ? "Keep what was read on the local disk."
                : is_packed(rank) ? "Copy the data to a faster disk."
                                  : "Pack the data into one file, or copy them to a faster disk.");
            if (cache) {
                finding.fix.recipe = {{"data.cache", fmt::format("\"{}\"", wanted)}, {"data.cache_as", "\"encoded\""}};
                if (bytes > kDefaultCache || (bytes > 0 && has_own_cache_size(records))) {
                    finding.fix.recipe.push_back({"data.cache_bytes", fmt::format("{:.0f}", bytes)});
                }
            }
            finding.fix.code = is_packed(rank) ? "" : pack_command(records, rank);
            // Work between waits runs on cold cores: once nothing waits, the workers' CPU time is what is
            // left.
            const double on_core = std::max(run.worker_cpu(), 0.01 * run.worker_busy());
            finding.gain = gain_without_wait(run, std::max(speedup_of(read), run.worker_busy() / on_core));
            if (cache) {
                finding.gain = after_first_epoch(finding.gain, epochs_of(records));
            }
            finding.confidence = 0.8;
        });
}

bool holds_dct(const DataFacts& data) {
    return data.codec == "dct" || data.codec == "dct-zstd";
}

// Both decode with `auto`.
bool decodes_on_gpu(const DataFacts& data) {
    return data.decode_on == "device" || data.decode_on == "auto";
}

// Whether a GPU would decode dct records, as far as facts and recipe tell: the ops may forbid it.
bool gpu_can_decode(const JudgedRun& records, const RankRecords& rank) {
    const DataFacts& data = rank.facts.data;
    return !in_python(rank) && rank.facts.device.type == "cuda" && data.decode != "fast" && data.cache == "none" &&
           !recipe_sets(records, "data.channels", "1");
}

// Whether only the recipe's data.decode_on keeps the GPU from it.
bool keeps_gpu_from_decoding(const JudgedRun& records, const RankRecords& rank) {
    return holds_dct(rank.facts.data) && recipe_sets(records, "data.decode_on", "cpu") && gpu_can_decode(records, rank);
}

// Of a worker's time for a dct record, what a GPU saves that decodes it, as docs/cuda.md measured it. What is left: to
// read, check and copy; and to decompress `dct-zstd`.
constexpr double kSavedByGpu = 0.84;
constexpr double kSavedByGpuOfZstd = 0.49;

// `ops`: the share of the workers' time that goes with the ops.
void decode_on_gpu(const RankRecords& rank, const RunSummary& run, double ops, Finding& finding) {
    const double decoding = rank.facts.data.codec == "dct" ? kSavedByGpu : kSavedByGpuOfZstd;
    const double saved = 1 - (1 - decoding) * (1 - ops);
    finding.fix.recipe = {{"data.decode_on", "\"auto\""}};
    finding.gain = gain_without_wait(run, speedup_of(saved), saved * run.worker_busy());
    finding.confidence = 0.6;
}

// The GPU decodes already: what is left for the workers grows with the images.
void smaller_images(const JudgedRun& records, const RankRecords& rank, const RunSummary& run, Finding& finding) {
    constexpr double kSaved = 0.5;  // with half of the pixels
    const StageTimes workers = run.workers.value_or(StageTimes{});
    const double on_gpu =
        static_cast<double>(workers.on_device) / static_cast<double>(std::max<std::int64_t>(workers.samples, 1));
    finding.text += fmt::format("The GPU decodes {:.0f} % of the images already. Store smaller ones.", 100 * on_gpu);
    finding.fix.code = pack_command(records, rank, " --codec dct --resize-shorter 256");
    finding.gain = gain_without_wait(run, speedup_of(kSaved * decode_share(run)));
    finding.confidence = 0.4;
}

void pack_for_decoding(const JudgedRun& records, const RankRecords& rank, const RunSummary& run, Finding& finding) {
    const bool jpeg = rank.facts.data.codec == "jpeg";
    const bool gpu = gpu_can_decode(records, rank) && !recipe_sets(records, "data.decode_on", "cpu");
    finding.text += !jpeg ? "Pack the data as `raw` pixels, or smaller."
                    : gpu ? "Pack the data as `dct`, which needs no Huffman decoding, and which the GPU decodes where "
                            "the workers fall behind."
                          : "Pack the data as `dct`, which needs no Huffman decoding.";
    finding.fix.code = pack_command(records, rank, jpeg ? " --codec dct" : " --codec raw");
    const auto gain_of = [&](double saved) {
        return gain_without_wait(run, speedup_of(saved), saved * run.worker_busy());
    };
    const double saved = jpeg ? dct_saved(rank, run) : decode_share(run);
    finding.gain = gain_of(saved);
    if (jpeg && gpu) {  // unless the ops keep it from decoding
        const Gain shared = gain_of(saved + kSavedByGpu * (decode_share(run) - saved));
        finding.gain.expected = shared.expected;
        finding.gain.high = shared.high;
    }
    finding.confidence = 0.8;
}

std::vector<Finding> decode_bound(const JudgedRun& records) {
    return for_cause(records, WaitCause::decode, "decode-bound",
                     [&records](const RankRecords& rank, const RunSummary& run, Finding& finding) {
                         const std::string& codec = rank.facts.data.codec;
                         finding.evidence.push_back({"decode_share_of_workers", decode_share(run)});
                         if (codec == "jpeg") {
                             const double entropy = share_of_workers(run, run.worker_seconds(Stage::entropy));
                             finding.evidence.push_back({"entropy_share_of_workers", entropy});
                         }
                         finding.text = fmt::format("Decoding {} takes {:.0f} % of the workers' time{}. ",
                                                    codec.empty() ? "images" : codec, 100 * decode_share(run),
                                                    saturation_text(run));
                         if (keeps_gpu_from_decoding(records, rank)) {
                             finding.text += "Let the GPU decode, too.";
                             decode_on_gpu(rank, run, 0, finding);
                         } else if (decodes_on_gpu(rank.facts.data)) {
                             smaller_images(records, rank, run, finding);
                         } else {
                             pack_for_decoding(records, rank, run, finding);
                         }
                     });
}

std::vector<Finding> augment_bound(const JudgedRun& records) {
    return for_cause(records, WaitCause::augment, "augment-bound",
                     [&records](const RankRecords& rank, const RunSummary& run, Finding& finding) {
                         finding.evidence.push_back({"augment_share_of_workers", augment_share(run)});
                         finding.text = fmt::format("The ops of data.train_ops take {:.0f} % of the workers' time{}. ",
                                                    100 * augment_share(run), saturation_text(run));
                         if (keeps_gpu_from_decoding(records, rank)) {
                             finding.text += "Let the GPU decode, too; it then runs the ops of what it decodes.";
                             decode_on_gpu(rank, run, augment_share(run), finding);
                             return;
                         }
                         finding.text += "Crop or resize before the costly ops, or store smaller images.";
                         finding.fix.code = "train_ops: put crops and resizes before colour and affine ops";
                         const double saved = augment_share(run) / 2;
                         finding.gain = gain_without_wait(run, speedup_of(saved), saved * run.worker_busy());
                         finding.confidence = 0.7;
                     });
}

// Of a loader whose workers are never idle any more. Where they are busy already, the cause is unknown, and so is what
// a fix brings.
double idle_speedup(const RankRecords& rank, const RunSummary& run) {
    constexpr double kUnknown = 100;
    return workers_are_busy(rank, run) || run.worker_busy() <= 0 ? kUnknown
                                                                 : worker_capacity(rank, run) / run.worker_busy();
}

std::vector<Finding> no_prefetch(const JudgedRun& records) {
    return for_cause(
        records, WaitCause::prefetch, "no-prefetch",
        [](const RankRecords& rank, const RunSummary& run, Finding& finding) {
            finding.evidence.push_back({"prefetch", static_cast<double>(*rank.facts.data.prefetch)});
            if (run.ready) {
                finding.evidence.push_back({"ready_batches", *run.ready});
            }
            finding.text = fmt::format(
                "The trainer waits for {:.0f} % of its time although the workers are idle for {:.0f} % of theirs: a "
                "queue "
                "of {} is too short.",
                100 * run.input_wait(), 100 * run.blocked_share().value_or(0),
                pluralize(*rank.facts.data.prefetch, "batch"));
            finding.fix = {.recipe = {{"data.prefetch", "4"}}, .code = "DataLoader(..., prefetch_factor=4)"};
            finding.gain = gain_without_wait(run, idle_speedup(rank, run));
            finding.confidence = 0.8;
        });
}

// The trainer waits, and no rule above knows why. Where it has no core for as long as it waits, that is the reason:
// its own threads and the workers take them from each other.
std::vector<Finding> slow_loader(const JudgedRun& records) {
    return for_cause(records, WaitCause::unknown, "slow-loader",
                     [](const RankRecords& rank, const RunSummary& run, Finding& finding) {
                         finding.text = fmt::format(
                             "The trainer waits for its data for {:.0f} % of its time. {} shows each batch and worker.",
                             100 * run.input_wait(), rank.profile ? "The timeline" : "`stoker profile`");
                         const double read = share_of_workers(run, run.worker_seconds(Stage::read));
                         if (read + decode_share(run) + augment_share(run) > 0) {  // else the workers have no clocks
                             finding.evidence.push_back({"read_share_of_workers", read});
                             finding.evidence.push_back({"decode_share_of_workers", decode_share(run)});
                             finding.evidence.push_back({"augment_share_of_workers", augment_share(run)});
                         }
                         finding.fix.code = rank.profile ? "" : "stoker profile RUN/recipe.toml -o profile";
                         finding.gain = gain_without_wait(run, idle_speedup(rank, run));
                         constexpr double kNothing = 1.02;  // loading and training share cores that are all busy
                         finding.severity = finding.gain.high < kNothing ? Severity::info : finding.severity;
                         const bool cores_are_full = !run.busy_share || saturated(run);
                         if (cores_are_full && run.core_wait_share >= run.input_wait()) {
                             finding.text += fmt::format(" All cores are busy: it has none for {:.0f} % of its time.",
                                                         100 * run.core_wait_share);
                             finding.evidence.push_back({"core_wait_share", run.core_wait_share});
                             finding.severity = Severity::info;
                         }
                         finding.confidence = 0.4;
                     });
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

std::vector<Finding> cold_cache(const JudgedRun& records) {
    std::vector<Finding> findings;
    for (const RankRecords& rank : records.ranks) {
        const std::optional<EpochWaits> waits = records.kind == "run" ? waits_by_epoch(rank) : std::nullopt;
        constexpr double kCold = 3;  // times the later waits
        if (!waits || waits->first_share < kWaitWarn || waits->first < kCold * waits->later ||
            rank.facts.data.path.starts_with("synth:")) {
            continue;
        }
        Finding finding = finding_of("cold-cache", Severity::info, rank, records.summary(rank));
        finding.first_step = rank.steps.front().step;
        finding.text = "The first epoch waits much longer for its data than the later ones, which find them in memory.";
        finding.fix.code = is_packed(rank) ? "" : pack_command(records, rank);
        finding.text += finding.fix.code.empty() ? "" : " A packed data set shortens the first epoch.";
        finding.evidence = {{"first_epoch_wait_ms", 1e3 * waits->first}, {"later_wait_ms", 1e3 * waits->later}};
        finding.gain = gain_of_share(waits->first_share, 0.2);
        finding.confidence = 0.6;
        findings.push_back(finding);
    }
    return findings;
}

}  // namespace

std::span<const Rule> input_rules() {
    static constexpr std::array kRules = {
        Rule{"no-workers", "no loader workers, and the training thread waits for its own loading for 5 % of its time",
             "`data.workers`: one for each core that is free", no_workers},
        Rule{"worker-startup", "worker processes of Python that start and end with each epoch take 5 % of the time",
             "`persistent_workers=True`", worker_startup},
        Rule{"few-workers",
             "the trainer waits for 5 %, the workers are never idle, and there is room on free cores for 15 % more of "
             "them; with less room, if neither decoding nor the ops take 40 %",
             "more `data.workers`, up to the cores", few_workers},
        Rule{"storage-bound",
             "the trainer waits, and the workers spend 40 % of their time in reads without using a core",
             "`data.cache = \"ram\"`, or `\"disk\"` for remote data; `stoker pack`, or a faster disk", storage_bound},
        Rule{"decode-bound", "the trainer waits, and the workers spend 40 % of their time on decoding",
             "`stoker pack --codec dct` (JPEG) or `--codec raw`; more workers only where cores are free", decode_bound},
        Rule{"augment-bound", "the trainer waits, and the workers spend 40 % of their time on `train_ops`",
             "crop and resize first, or store smaller images", augment_bound},
        Rule{"no-prefetch", "the trainer waits while the workers are idle, and `data.prefetch` is 1 or 2",
             "`data.prefetch = 4`", no_prefetch},
        Rule{"slow-loader",
             "the trainer waits for 5 % of its time, and no other rule knows why; info where all cores are busy and "
             "it has none for as long",
             "`stoker profile`", slow_loader},
        Rule{"cold-cache", "waits of the first epoch are 3 times those of later epochs", "`stoker pack`, or nothing",
             cold_cache},
    };
    return kRules;
}

}  // namespace stoker

// Why the training thread waits for batches: storage, decoding, augmentation, too few workers, too little prefetch.
// The loader's own clocks decide: a stage is slow only if the workers spend their time in it and are never idle.
#include "stoker/diagnose/rules/rule_families.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

#include "stoker/diagnose/rules/run_summary.h"

namespace stoker {
namespace {

// xprof's limits: below 5 % of the step the input is fine, from 20 % on the run is bound by it.
constexpr double kWarn = 0.05;
constexpr double kCritical = 0.20;
constexpr double kIdleWorkers = 0.3;  // workers with this share of idle time are not what the trainer waits for
constexpr double kStageShare = 0.4;   // of the workers' busy time: the stage to work on
constexpr double kSaturated = 0.85;   // of the cores

Severity severity_of(double wait) {
    return wait >= kCritical ? Severity::critical : Severity::warn;
}

bool waits(const RunSummary& run) {
    return run.steps > 0 && run.of(Phase::wait) >= kWarn;
}

bool loads_itself(const RankRecords& rank) {
    return rank.facts.data.workers == 0;
}

bool workers_are_busy(const RunSummary& run) {
    return run.blocked_share() && *run.blocked_share() < kIdleWorkers;
}

double share_of(const RunSummary& run, double seconds) {
    return run.worker_busy() > 0 ? seconds / run.worker_busy() : 0;
}

double decode_share(const RunSummary& run) {
    return share_of(run, run.worker_seconds(Stage::entropy) + run.worker_seconds(Stage::pixels));
}

// Time within stages in which no core worked for this process: it waited for a disk or the network. Where all cores are
// busy, waiting for a core cannot be told from it.
double waiting_seconds(const RankRecords& rank, const RunSummary& run) {
    const double main = loads_itself(rank) ? run.seconds : run.seconds * (1 - run.of(Phase::wait));
    const double busy = main + (loads_itself(rank) ? 0 : run.worker_busy());
    return run.process_cores ? std::max(0.0, busy - *run.process_cores * run.seconds) : 0;
}

bool saturated(const RunSummary& run) {
    return run.busy_share && *run.busy_share >= kSaturated;
}

bool storage_is_slow(const RankRecords& rank, const RunSummary& run) {
    const double read = run.worker_seconds(Stage::read);
    return share_of(run, read) >= kStageShare && !saturated(run) && waiting_seconds(rank, run) >= read / 2;
}

// The cores that loading may use: those that are free, and those of the workers that are there.
int useful_workers(const RunSummary& run) {
    return std::max(1, static_cast<int>(std::floor(run.cores.value_or(1))));
}

// Throughput if the wait vanished as far as cores allow: a CPU shares its cores between loading and training.
Gain gain_without_wait(const RunSummary& run) {
    const double rest = 1 - run.of(Phase::wait);
    double floor = rest;
    if (run.process_cores && run.cores) {
        floor = std::max(floor, *run.process_cores / *run.cores);
    }
    const double best = 1 / std::clamp(floor, 0.05, 1.0);
    return {.low = 1 + (best - 1) / 2, .expected = 1 + (best - 1) * 0.85, .high = best};
}

Finding begin(std::string_view rule, const RankRecords& rank, const RunSummary& run) {
    Finding finding = finding_of(rule, severity_of(run.of(Phase::wait)), rank, run);
    finding.evidence = {{"wait_share", run.of(Phase::wait)}};
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

// One finding for each rank whose records `judge` says something about.
template <typename Judge>
std::vector<Finding> for_ranks(const RunRecords& records, const Judge& judge) {
    std::vector<Finding> findings;
    if (records.kind != "run") {
        return findings;
    }
    for (const RankRecords& rank : records.ranks) {
        const RunSummary run = summarize(rank);
        if (waits(run)) {
            judge(rank, run, findings);
        }
    }
    return findings;
}

std::vector<Finding> no_workers(const RunRecords& records) {
    return for_ranks(records, [](const RankRecords& rank, const RunSummary& run, std::vector<Finding>& findings) {
        if (!loads_itself(rank)) {
            return;
        }
        const int workers = useful_workers(run);
        Finding finding = begin("no-workers", rank, run);
        finding.text = fmt::format(
            "The training thread loads the data itself, which takes {:.0f} % of its time. Let {} worker{} do it.",
            100 * run.of(Phase::wait), workers, workers == 1 ? "" : "s");
        finding.fix = {.recipe = {{"data.workers", fmt::to_string(workers)}},
                       .code = fmt::format("DataLoader(..., num_workers={}, persistent_workers=True)", workers)};
        finding.gain = gain_without_wait(run);
        finding.confidence = 0.9;
        findings.push_back(finding);
    });
}

std::vector<Finding> few_workers(const RunRecords& records) {
    return for_ranks(records, [](const RankRecords& rank, const RunSummary& run, std::vector<Finding>& findings) {
        const int workers = rank.facts.data.workers.value_or(0);
        constexpr double kOneMore = 0.3;  // of a core
        if (workers == 0 || !workers_are_busy(run) || saturated(run) || run.free_cores().value_or(0) < kOneMore ||
            storage_is_slow(rank, run) || workers >= useful_workers(run)) {
            return;
        }
        Finding finding = begin("few-workers", rank, run);
        finding.evidence.push_back({"workers", static_cast<double>(workers)});
        finding.text = fmt::format(
            "{} loader worker{} cannot keep up: the trainer waits for {:.0f} % of its time while "
            "{:.1f} of {:.0f} cores are free. Use {}.",
            workers, workers == 1 ? "" : "s", 100 * run.of(Phase::wait), *run.free_cores(), *run.cores,
            useful_workers(run));
        finding.fix = {.recipe = {{"data.workers", fmt::to_string(useful_workers(run))}},
                       .code = fmt::format("DataLoader(..., num_workers={})", useful_workers(run))};
        finding.gain = gain_without_wait(run);
        finding.gain.high = std::min(finding.gain.high, static_cast<double>(useful_workers(run)) / workers);
        finding.gain.expected = std::min(finding.gain.expected, finding.gain.high);
        finding.gain.low = std::min(finding.gain.low, finding.gain.expected);
        finding.confidence = 0.85;
        findings.push_back(finding);
    });
}

std::vector<Finding> storage_bound(const RunRecords& records) {
    return for_ranks(records, [](const RankRecords& rank, const RunSummary& run, std::vector<Finding>& findings) {
        if (!storage_is_slow(rank, run) || (!loads_itself(rank) && !workers_are_busy(run))) {
            return;
        }
        const DataFacts& data = rank.facts.data;
        const double read = share_of(run, run.worker_seconds(Stage::read));
        Finding finding = begin("storage-bound", rank, run);
        finding.evidence.push_back({"read_share_of_workers", read});
        const double bytes =
            data.samples && data.sample_bytes ? static_cast<double>(*data.samples) * *data.sample_bytes : 0;
        const double memory = static_cast<double>(rank.facts.host.memory_bytes.value_or(0));
        const bool fits = bytes > 0 && bytes < memory / 2;
        finding.text = fmt::format(
            "Reading takes {:.0f} % of the workers' time, and the cores are idle meanwhile: the "
            "storage is too slow. {}",
            100 * read,
            fits ? "The data fit in memory: cache them there."
                 : "Pack the data into one file, or copy them to a faster disk.");
        if (fits) {
            finding.fix.recipe = {{"data.cache", "\"ram\""}, {"data.cache_as", "\"encoded\""}};
        }
        finding.fix.code = fmt::format("stoker pack {} packed.stk", data.path.empty() ? "DATA" : data.path);
        finding.gain = gain_of_share(run.of(Phase::wait) * read);
        finding.confidence = 0.8;
        findings.push_back(finding);
    });
}

std::vector<Finding> decode_bound(const RunRecords& records) {
    return for_ranks(records, [](const RankRecords& rank, const RunSummary& run, std::vector<Finding>& findings) {
        const double decode = decode_share(run);
        if (decode < kStageShare || !(saturated(run) || loads_itself(rank) || workers_are_busy(run)) ||
            storage_is_slow(rank, run)) {
            return;
        }
        const bool jpeg = rank.facts.data.codec == "jpeg";
        const double entropy = share_of(run, run.worker_seconds(Stage::entropy));
        Finding finding = begin("decode-bound", rank, run);
        finding.evidence.push_back({"decode_share_of_workers", decode});
        if (jpeg) {
            finding.evidence.push_back({"entropy_share_of_workers", entropy});
        }
        finding.text = fmt::format("Decoding {} takes {:.0f} % of the workers' time{}. {}",
                                   rank.facts.data.codec.empty() ? "images" : rank.facts.data.codec, 100 * decode,
                                   saturated(run) ? ", and all cores are busy: more workers will not help" : "",
                                   jpeg ? "Pack the data as `dct`, which needs no Huffman decoding."
                                        : "Pack the data as `raw` pixels, or smaller.");
        finding.fix = {.code = fmt::format("stoker pack {} packed.stk --codec {}",
                                           rank.facts.data.path.empty() ? "DATA" : rank.facts.data.path,
                                           jpeg ? "dct" : "raw")};
        // dct saves the entropy decoding and most of the pixels outside of the crop; raw saves all of it.
        finding.gain = gain_of_share(run.of(Phase::wait) * (jpeg ? entropy : decode));
        finding.confidence = 0.8;
        findings.push_back(finding);
    });
}

std::vector<Finding> augment_bound(const RunRecords& records) {
    return for_ranks(records, [](const RankRecords& rank, const RunSummary& run, std::vector<Finding>& findings) {
        const double augment = share_of(run, run.worker_seconds(Stage::augment));
        if (augment < kStageShare || decode_share(run) > augment || storage_is_slow(rank, run) ||
            (!loads_itself(rank) && !workers_are_busy(run))) {
            return;
        }
        Finding finding = begin("augment-bound", rank, run);
        finding.evidence.push_back({"augment_share_of_workers", augment});
        finding.text = fmt::format(
            "The ops of data.train_ops take {:.0f} % of the workers' time{}. Crop or resize "
            "before the costly ops, or store smaller images.",
            100 * augment, saturated(run) ? ", and all cores are busy: more workers will not help" : "");
        finding.fix = {.code = "train_ops: put crops and resizes before colour and affine ops"};
        finding.gain = gain_of_share(run.of(Phase::wait) * augment, /*least=*/0.2);
        finding.confidence = 0.7;
        findings.push_back(finding);
    });
}

std::vector<Finding> no_prefetch(const RunRecords& records) {
    return for_ranks(records, [](const RankRecords& rank, const RunSummary& run, std::vector<Finding>& findings) {
        const std::optional<int> prefetch = rank.facts.data.prefetch;
        if (loads_itself(rank) || !prefetch || *prefetch > 2 || !run.blocked_share() || workers_are_busy(run)) {
            return;
        }
        Finding finding = begin("no-prefetch", rank, run);
        finding.evidence.push_back({"prefetch", static_cast<double>(*prefetch)});
        if (run.ready) {
            finding.evidence.push_back({"ready_batches", *run.ready});
        }
        finding.text = fmt::format(
            "The trainer waits for {:.0f} % of its time although the workers are idle for {:.0f} "
            "% of theirs: a queue of {} batch{} is too short.",
            100 * run.of(Phase::wait), 100 * *run.blocked_share(), *prefetch, *prefetch == 1 ? "" : "es");
        finding.fix = {.recipe = {{"data.prefetch", "4"}}, .code = "DataLoader(..., prefetch_factor=4)"};
        finding.gain = gain_without_wait(run);
        finding.confidence = 0.8;
        findings.push_back(finding);
    });
}

std::vector<Finding> cold_cache(const RunRecords& records) {
    std::vector<Finding> findings;
    for (const RankRecords& rank : records.ranks) {
        constexpr std::int64_t kFirst = 1;
        double first = 0;
        double later = 0;
        std::int64_t first_steps = 0;
        std::int64_t later_steps = 0;
        double seconds = 0;
        for (const StepEntry& step : rank.steps) {
            const double wait =
                std::chrono::duration<double>(step.host.times[static_cast<std::size_t>(Phase::wait)]).count();
            seconds += std::chrono::duration<double>(step.host.total()).count();
            (step.epoch <= kFirst ? first : later) += wait;
            ++(step.epoch <= kFirst ? first_steps : later_steps);
        }
        if (records.kind != "run" || first_steps == 0 || later_steps == 0 || first / seconds < kWarn) {
            continue;
        }
        const double early = first / static_cast<double>(first_steps);
        const double late = later / static_cast<double>(later_steps);
        constexpr double kCold = 3;  // early waits against late ones
        if (early < kCold * late) {
            continue;
        }
        Finding finding{.rule = "cold-cache",
                        .severity = Severity::info,
                        .text =
                            "The first epoch waits much longer for its data than the later ones, which find them in "
                            "memory. A packed data set shortens the first epoch.",
                        .evidence = {{"first_epoch_wait_ms", 1e3 * early}, {"later_wait_ms", 1e3 * late}},
                        .rank = rank.facts.rank,
                        .first_step = rank.steps.front().step,
                        .last_step = rank.steps.back().step,
                        .fix = {.code = "stoker pack DATA packed.stk"},
                        .gain = gain_of_share(first / seconds, 0.2),
                        .confidence = 0.6};
        findings.push_back(finding);
    }
    return findings;
}

}  // namespace

std::span<const Rule> input_rules() {
    static constexpr std::array kRules = {
        Rule{"no-workers", "no loader workers, and the training thread waits for its own loading for 5 % of its time",
             "`data.workers`: one for each core that is free", no_workers},
        Rule{"few-workers", "the trainer waits for 5 %, the workers are never idle, and cores are free",
             "more `data.workers`, up to the cores", few_workers},
        Rule{"storage-bound",
             "the trainer waits, and the workers spend 40 % of their time in reads without using a core",
             "`data.cache = \"ram\"`, `stoker pack`, or a faster disk", storage_bound},
        Rule{"decode-bound", "the trainer waits, and the workers spend 40 % of their time on decoding",
             "`stoker pack --codec dct` (JPEG) or `--codec raw`; more workers only where cores are free", decode_bound},
        Rule{"augment-bound", "the trainer waits, and the workers spend 40 % of their time on `train_ops`",
             "crop and resize first, or store smaller images", augment_bound},
        Rule{"no-prefetch", "the trainer waits while the workers are idle, and `data.prefetch` is 1 or 2",
             "`data.prefetch = 4`", no_prefetch},
        Rule{"cold-cache", "waits of the first epoch are 3 times those of later epochs", "`stoker pack`, or nothing",
             cold_cache},
    };
    return kRules;
}

}  // namespace stoker

// A table: rule -> sentence and lines of Python. Rules that are not in it say all in their own.
#include "stoker/diagnose/rules/python_fix.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fmt/format.h>
#include <string_view>

#include "stoker/base/pluralize.h"
#include "stoker/base/shell_quote.h"
#include "stoker/diagnose/phase_sums.h"
#include "stoker/diagnose/rules/lost_time.h"

namespace stoker {
namespace {

struct Advised {
    const Finding& finding;
    const RankRecords& rank;
    const RunSummary& run;

    double percent(std::string_view evidence) const {
        const auto found = std::ranges::find(finding.evidence, evidence, &Evidence::name);
        return found == finding.evidence.end() ? 0 : 100 * found->value;
    }
    // The folder that a data set of torchvision reads; DATA where it is not known.
    std::string data() const { return rank.facts.data.path.empty() ? "DATA" : rank.facts.data.path; }
    // What stoker.Loader takes: the folder, else the program's own data set.
    std::string source() const {
        return rank.facts.data.path.empty() ? "dataset" : fmt::format("{:?}", rank.facts.data.path);
    }
    bool cores_are_busy() const {
        constexpr double kSaturated = 0.85;
        return run.busy_share.value_or(0) >= kSaturated;
    }
    const char* cores_text() const {
        return cores_are_busy() ? " All cores are busy: more workers will not help." : "";
    }
};

struct Words {
    std::string text = {};  // empty: as the rule says it
    std::string code = {};  // likewise
};

Words workers_for_none(const Advised& of) {
    const char* const busy = of.cores_are_busy() ? " All cores are busy: workers gain little as long as they are." : "";
    // stoker.Loader refuses a stream that its workers do not divide.
    if (!of.rank.facts.data.iterable.value_or(false) || of.rank.facts.data.loader == "stoker.Loader") {
        return {of.finding.text + busy, ""};
    }
    return {of.finding.text + busy + " Each worker would give the whole stream, so the data set has to divide it.",
            of.finding.fix.code +
                "\n# in its __iter__: info = get_worker_info(); then every info.num_workers-th sample "
                "from info.id on"};
}

Words storage(const Advised& of) {
    return {fmt::format("Reading samples takes {:.0f} % of the workers' time without using a core: the storage is too "
                        "slow, or the data set waits for something else.",
                        of.percent("read_share_of_workers")),
            fmt::format("stoker pack {} packed.stk  # one file, read in order, for stoker.Loader",
                        quoted_for_shell(of.data()))};
}

Words decode(const Advised& of) {
    const std::string& codec = of.rank.facts.data.codec;
    const bool jpeg = codec == "jpeg";
    const std::string loader =
        of.rank.facts.data.path.empty()
            ? "data = stoker.open(FOLDER, labels=\"labels.csv\")  # labels: of a table; without: class folders\n"
              "loader = stoker.Loader(data, ...)  # decodes only what a crop needs"
            : fmt::format("loader = stoker.Loader({:?}, ...)  # decodes only what a crop needs", of.data());
    return {
        fmt::format("Decoding {}images{} takes {:.0f} % of the workers' time.{} Decode fewer pixels, or with a faster "
                    "decoder.",
                    codec.empty() ? "" : codec + " ",
                    of.rank.facts.data.decode.empty() ? "" : " with " + of.rank.facts.data.decode,
                    of.percent("decode_share_of_workers"), of.cores_text()),
        (jpeg ? "image = Image.open(path); image.draft(\"RGB\", (256, 256))  # decodes at a smaller scale\n" : "") +
            loader};
}

Words augment(const Advised& of) {
    return {fmt::format("The data set's own code and its transforms take {:.0f} % of the workers' time.{} Make them "
                        "cheaper.",
                        of.percent("augment_share_of_workers"), of.cores_text()),
            "transforms: crop and resize first; whole arrays instead of Python loops;\n"
            "compute once what is the same in each epoch, and store it"};
}

// What takes most of the workers' time; empty where they have no clocks, or nothing takes half of it.
std::string most_of_workers(const Advised& of) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kParts = {
        {{"augment_share_of_workers", "the data set's own code and its transforms take"},
         {"decode_share_of_workers", "decoding images takes"},
         {"read_share_of_workers", "reading samples takes"}}};
    const auto part = std::ranges::max_element(kParts, {}, [&](const auto& p) { return of.percent(p.first); });
    const double percent = of.percent(part->first);
    return percent < 50 ? "" : fmt::format("{} {:.0f} % of the time in which the workers work", part->second, percent);
}

Words own_batches(const Advised& of) {
    const std::string most = most_of_workers(of);
    const bool own = of.rank.facts.data.loader == "stoker.Loader";
    const bool folder = own && of.rank.facts.data.format == "image_folder";
    return {
        fmt::format("The training thread waits for its batches for {:.0f} % of the time{}.{}", of.percent("wait_share"),
                    !most.empty() ? "; " + most
                    : own         ? "; the workers of stoker.Loader are not measured here"
                                  : ", and no clock of the workers says why",
                    of.cores_text()),
        !of.cores_are_busy() ? "DataLoader(..., prefetch_factor=4, persistent_workers=True)  # then watch again"
        : folder ? fmt::format("stoker pack {} packed.stk --codec dct  # for JPEGs; then stoker.Loader reads "
                               "packed.stk",
                               quoted_for_shell(of.data()))
        : own    ? "fewer or cheaper ops, or smaller images: the cores are the limit"
                 : fmt::format("loader = stoker.Loader({}, ...)", of.source())};
}

Words memory(const Advised& of) {
    const int workers = of.rank.facts.data.workers.value_or(0);
    return {fmt::format("The program uses {:.0f} % of the memory that it may use.", of.percent("memory_share")),
            workers > 1 ? fmt::format("DataLoader(..., num_workers={}, prefetch_factor=2)  # or a smaller batch_size",
                                      workers / 2)
                        : "DataLoader(..., batch_size)  # a smaller one"};
}

// The share of the evaluations' time in which they wait for batches.
double evaluation_wait(const RankRecords& rank) {
    return sum_of_evaluations(rank.evaluations).share(Phase::wait);
}

bool evaluation_waits(const RankRecords& rank) {
    constexpr double kMost = 0.5;
    return evaluation_wait(rank) >= kMost && rank.facts.train.val_workers;
}

// Evaluations are counted in steps, because a program may evaluate within an epoch.
Words evaluation(const Advised& of) {
    constexpr double kWanted = 0.1;  // of the time
    const double share = std::min(of.percent("evaluate_share") / 100, 0.999);
    const auto steps = static_cast<double>(of.rank.steps.size());
    const double each = std::max(1.0, std::round(steps / static_cast<double>(of.rank.evaluations.size())));
    const double every = std::min(steps, std::ceil(each * share * (1 - kWanted) / (kWanted * (1 - share))));
    const std::string less = fmt::format("if step % {:.0f} == 0: evaluate(model)", every);
    if (evaluation_waits(of.rank)) {
        const int workers = *of.rank.facts.train.val_workers;
        const int cores = std::max(1, static_cast<int>(of.run.cores.value_or(1)));
        return {
            fmt::format("Evaluations take {:.0f} % of the time, one after every {:.0f} steps, and wait for batches in "
                        "{:.0f} % of theirs: their loader has {}.{} Speed it up, or evaluate every {:.0f} steps.",
                        100 * share, each, 100 * evaluation_wait(of.rank),
                        workers == 0 ? "no workers" : pluralize(workers, "worker"), of.cores_text(), every),
            workers >= cores || of.cores_are_busy()
                ? less
                : fmt::format("DataLoader(..., num_workers={}, persistent_workers=True)\n# or: {}", cores, less)};
    }
    return {fmt::format("Evaluations take {:.0f} % of the time, one after every {:.0f} steps. Evaluate every {:.0f} "
                        "steps, or on fewer samples.",
                        100 * share, each, every),
            less};
}

Words checkpoints(const Advised&) {
    return {"", "if step % 1000 == 0: torch.save(...)"};
}

// Of all processes: a step's batch size is that of a loader times as many.
std::int64_t batches_of_a_step(const RankRecords& rank) {
    const std::int64_t ranks = std::max(1, rank.facts.world_size);
    return ranks * std::clamp(rank.facts.train.accumulate.value_or(1), 1, 1 << 20);
}

Words batch(const Advised& of) {
    const auto change = std::ranges::find(of.finding.fix.recipe, "data.batch_size", &RecipeChange::key);
    if (change == of.finding.fix.recipe.end()) {
        return {};
    }
    const std::int64_t ranks = std::max(1, of.rank.facts.world_size);  // each process loads its part
    const std::int64_t own = std::strtoll(change->value.c_str(), nullptr, 10) / batches_of_a_step(of.rank);
    return {"", fmt::format("DataLoader(..., batch_size={})  # {}choose the learning rate again", own,
                            ranks > 1 ? "in each process; " : "")};
}

// What stoker.Loader calls the arguments of DataLoader. Its workers are threads, which live as long as it does.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kOwnNames = {{
    {"DataLoader(", "stoker.Loader("},
    {"num_workers", "workers"},
    {", persistent_workers=True", ""},
    {"prefetch_factor=4", "prefetch=8"},  // of each worker, of all
    {"prefetch_factor", "prefetch"},
}};

void use_own_names(std::string& code) {
    for (const auto& [name, own] : kOwnNames) {
        for (std::size_t at = code.find(name); at != std::string::npos; at = code.find(name, at + own.size())) {
            code.replace(at, name.size(), own);
        }
    }
}

struct CodeOfRule {
    std::string_view rule;
    Words (*words)(const Advised&);
};

constexpr std::array kCode = {
    CodeOfRule{"no-workers", workers_for_none},
    CodeOfRule{"storage-bound", storage},
    CodeOfRule{"decode-bound", decode},
    CodeOfRule{"augment-bound", augment},
    CodeOfRule{"slow-loader", own_batches},
    CodeOfRule{"memory-pressure", memory},
    CodeOfRule{"frequent-evaluation", evaluation},
    CodeOfRule{"frequent-checkpoints", checkpoints},
    CodeOfRule{"small-batch", batch},
};

// Not storage-bound: stoker.Loader was measured when the files were in memory.
constexpr std::array<std::string_view, 5> kInput = {"no-workers", "few-workers", "decode-bound", "augment-bound",
                                                    "slow-loader"};

// Samples a second of this process, over the judged steps; 0: unknown.
double rate_of(const RankRecords& rank, const RunSummary& run) {
    double samples = 0;
    double seconds = 0;
    for (const StepEntry& step : rank.steps) {
        if (step.step >= run.first_step && step.step <= run.last_step && step.samples) {
            samples += static_cast<double>(*step.samples);
            seconds += std::chrono::duration<double>(step.host.total()).count();
        }
    }
    return seconds > 0 ? samples / seconds : 0;
}

// If the training thread no longer waits, and each sample costs what stoker.Loader needs for it: beside a step on a
// GPU, or of the same cores.
Gain gain_of_own_loader(const RankRecords& rank, double own, double now, double wait_share) {
    const double rest = (1 - wait_share) / now;  // seconds a sample, as all that follow
    const double apart = 1 / std::max(rest, 1 / own);
    const double together = 1 / (rest + 1 / own);
    const double expected = (on_gpu(rank) ? apart : together) / now;
    return {.low = std::max(1.0, (1 + expected) / 2), .expected = std::max(1.0, expected), .high = apart / now};
}

// Where the program waits for its data: what stoker.Loader gives of them, if that is more.
void offer_own_loader(Finding& finding, const RankRecords& rank, const RunSummary& run) {
    constexpr double kMore = 1.2;
    const double own = rank.facts.data.stoker_samples_per_second.value_or(0);
    const double now = rate_of(rank, run);
    if (std::ranges::find(kInput, finding.rule) == kInput.end() || now == 0 || own < kMore * now) {
        return;
    }
    const Gain gain = gain_of_own_loader(rank, own, now, run.of(Phase::wait));
    finding.text += fmt::format(
        " stoker.Loader gives {:.0f} samples a second of the same data on this machine; the program trains {:.0f}, and "
        "{:.0f} with it.",
        own, now, now * gain.expected);
    finding.evidence.push_back({"samples_per_second", now});
    finding.evidence.push_back({"stoker_samples_per_second", own});
    const std::string code = fmt::format(
        "loader = stoker.Loader({:?}, batch_size={}, as_tuple=True,{}{}\n"
        "                       ops=stoker.transforms.from_torchvision(transform))  # that of your data set",
        rank.facts.data.path, rank.facts.train.batch_size.value_or(1) / batches_of_a_step(rank),
        rank.facts.data.shuffle.value_or(true) ? "" : " shuffle=False,",
        rank.facts.data.drop_last.value_or(false) ? " drop_last=True," : "");
    if (gain.expected > finding.gain.expected) {
        finding.gain = gain;
        finding.severity = std::max(finding.severity, Severity::warn);  // this gain needs no free core
        finding.fix.code = fmt::format("import stoker\n{}\n# or, for less:\n{}", code, finding.fix.code);
    } else {
        finding.fix.code += fmt::format("\n# or: import stoker\n{}", code);
    }
}

// Where the program has what a rule is about; empty: unknown.
std::string place_of(std::string_view rule, const RankRecords& rank) {
    const RunFacts& facts = rank.facts;
    constexpr std::array<std::string_view, 11> kLoader = {
        "no-workers",   "worker-startup", "few-workers", "many-workers",    "no-prefetch",  "slow-loader",
        "decode-bound", "augment-bound",  "small-batch", "memory-pressure", "pageable-copy"};
    return std::ranges::find(kLoader, rule) != kLoader.end() ? facts.data.place
           : rule == "single-tensor-optimizer"               ? facts.train.optimizer_place
           : rule == "frequent-checkpoints"                  ? facts.train.checkpoint_place
           : rule != "frequent-evaluation"                   ? ""
           : evaluation_waits(rank)                          ? facts.train.val_loader_place
                                                             : facts.train.evaluation_place;
}

}  // namespace

void advise_in_python(Finding& finding, const RankRecords& rank, const RunSummary& run) {
    const auto row = std::ranges::find(kCode, finding.rule, &CodeOfRule::rule);
    if (row != kCode.end()) {
        const Words words = row->words({.finding = finding, .rank = rank, .run = run});
        finding.text = words.text.empty() ? finding.text : words.text;
        finding.fix.code = words.code.empty() ? finding.fix.code : words.code;
    }
    if (rank.facts.data.loader == "stoker.Loader") {
        use_own_names(finding.fix.code);
    }
    if (const std::string place = place_of(finding.rule, rank); !place.empty() && !finding.fix.code.empty()) {
        finding.fix.code = fmt::format("# {}\n{}", place, finding.fix.code);
    }
    offer_own_loader(finding, rank, run);
    // Waits that the fix hardly shortens, as with busy cores, come after what gains more.
    constexpr double kHardly = 1.05;
    if (finding.severity == Severity::critical && finding.gain.expected < kHardly &&
        std::ranges::find(kInput, finding.rule) != kInput.end()) {
        finding.severity = Severity::warn;
    }
    finding.fix.recipe.clear();
    // Huffman decoding is not measured by itself.
    std::erase_if(finding.evidence, [](const Evidence& fact) { return fact.name == "entropy_share_of_workers"; });
}

// What PyTorch 2.11 has. On a CPU, for 60 tensors of 64 x 64, `foreach` took 0.60 to 0.83 of the time with RAdam,
// RMSprop, NAdam and Adamax, and 0.95 to 1.4 with Rprop, Adagrad, Adadelta and ASGD.
std::string faster_kernel(const RankRecords& rank) {
    constexpr std::array<std::string_view, 4> kFused = {"", "SGD", "Adam", "AdamW"};
    constexpr std::array<std::string_view, 4> kForeach = {"RMSprop", "Adamax", "NAdam", "RAdam"};
    constexpr std::array<std::string_view, 4> kForeachOnGpu = {"Adagrad", "Adadelta", "ASGD", "Rprop"};
    const std::string& name = rank.facts.train.optimizer;
    const auto is_of = [&](const auto& names) { return std::ranges::find(names, name) != names.end(); };
    if (is_of(kFused) || (name == "Adagrad" && !on_gpu(rank))) {
        return "fused";
    }
    return is_of(kForeach) || (on_gpu(rank) && is_of(kForeachOnGpu)) ? "foreach" : "";
}

}  // namespace stoker

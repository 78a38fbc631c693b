// Advice for a watched program: lines of Python with the place to change, for torch's DataLoader and for
// stoker.Loader. If stoker.Loader was measured to give more, it is offered.
#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/pluralize.h"
#include "stoker/base/shell_quote.h"
#include "stoker/diagnose/advice/tables.h"
#include "stoker/diagnose/phase_sums.h"
#include "stoker/diagnose/rules/wait_cause.h"

namespace stoker {
namespace {

const std::string& path_of(const Case& c) {
    return c.rank.facts.data.path;
}

// The command to pack the folder that a data set reads; DATA where it is not known.
std::string pack_data(const Case& c) {
    return fmt::format("stoker pack {} packed.stk", path_of(c).empty() ? "DATA" : quoted_for_shell(path_of(c)));
}

std::string packed_for_loader(const Case& c) {
    return pack_data(c) + "  # one file, read in order, for stoker.Loader";
}

std::string no_workers(const Case& c) {
    return text_of(kEveryone, &Row::text, c) +
           (c.is("spinning")
                ? filled(" Meanwhile torch's own threads take {spinning_cores:.1f} cores: they wait in loops for small "
                         "operations. Each worker has one thread.",
                         c)
            : saturated(c.run) && !waits_asleep(c.run) ? " All cores are busy: workers gain little meanwhile."
                                                       : "");
}

bool is_stream(const Case& c) {
    return c.rank.facts.data.iterable.value_or(false);
}

std::string slow_decoding(const Case& c) {
    const DataFacts& data = c.rank.facts.data;
    return fmt::format("Decoding {}images{}", data.codec.empty() ? "" : data.codec + " ",
                       data.decode.empty() ? "" : " with " + data.decode) +
           filled(
               " takes {decode_share_of_workers:.0f} % of the workers' time.{busy} Decode fewer pixels, or with a "
               "faster decoder.",
               c);
}

std::string faster_decoding(const Case& c) {
    const bool jpeg = c.rank.facts.data.codec == "jpeg";
    return (jpeg ? "image = Image.open(path); image.draft(\"RGB\", (256, 256))  # decodes at a smaller scale\n" : "") +
           (path_of(c).empty()
                ? "data = stoker.open(FOLDER, labels=\"labels.csv\")  # labels: of a table; without: class folders\n"
                  "loader = stoker.Loader(data, ...)  # decodes only what a crop needs"
                : fmt::format("loader = stoker.Loader({:?}, ...)  # decodes only what a crop needs", path_of(c)));
}

// Names the stage that takes half of the workers' time or more; without one, or without clocks, `unknown`.
std::string slow_loader(const Case& c, const char* unknown) {
    const double most = std::max({augment_share(c.run), decode_share(c.run), read_share(c.run)});
    constexpr double kMost = 0.5;
    const char* const what =
        most < kMost                   ? unknown
        : most == augment_share(c.run) ? "; the data set's own code and its transforms take "
                                         "{augment_share_of_workers:.0f} % of the time in which the workers work"
        : most == decode_share(c.run)
            ? "; decoding images takes {decode_share_of_workers:.0f} % of the time in which the workers work"
            : "; reading samples takes {read_share_of_workers:.0f} % of the time in which the workers work";
    return filled(
        fmt::format("The training thread waits for its batches for {{wait_share:.0f}} % of the time{}.{{busy}}", what),
        c);
}

std::string smaller_loader(const Case& c, const char* fewer, const char* smaller) {
    const int workers = c.rank.facts.data.workers.value_or(0);
    return workers > 1 ? fmt::format(fmt::runtime(fewer), workers / 2) : smaller;
}

// The share of the evaluations' time in which they wait for batches.
double evaluation_wait(const Case& c) {
    return sum_of_evaluations(c.rank.evaluations).share(Phase::wait);
}

bool evaluation_waits(const Case& c) {
    constexpr double kMost = 0.5;
    return evaluation_wait(c) >= kMost && c.rank.facts.train.val_workers;
}

// Steps between evaluations, which a program may run within an epoch: those that are, and those that are wanted.
struct Between {
    double now = 1;
    double wanted = 1;
};

Between evaluations_of(const Case& c) {
    constexpr double kWanted = 0.1;  // of the time
    const double share = std::min(c.evidence("evaluate_share"), 0.999);
    const auto steps = static_cast<double>(c.rank.steps.size());
    const double now = std::max(1.0, std::round(steps / static_cast<double>(c.rank.evaluations.size())));
    return {.now = now, .wanted = std::min(steps, std::ceil(now * share * (1 - kWanted) / (kWanted * (1 - share))))};
}

std::string frequent_evaluation(const Case& c) {
    const auto [now, wanted] = evaluations_of(c);
    const std::string often = filled("Evaluations take {evaluate_share:.0f} % of the time, one after every ", c) +
                              fmt::format("{:.0f} steps", now);
    if (!evaluation_waits(c)) {
        return fmt::format("{}. Evaluate every {:.0f} steps, or on fewer samples.", often, wanted);
    }
    const int workers = *c.rank.facts.train.val_workers;
    return fmt::format("{}, and wait for batches in {:.0f} % of theirs: their loader has {}.", often,
                       100 * evaluation_wait(c), workers == 0 ? "no workers" : pluralize(workers, "worker")) +
           filled("{busy} Speed it up, ", c) + fmt::format("or evaluate every {:.0f} steps.", wanted);
}

// `faster`: a loader with as many workers as are useful.
std::string rarer_evaluation(const Case& c, const char* faster) {
    const std::string less = fmt::format("if step % {:.0f} == 0: evaluate(model)", evaluations_of(c).wanted);
    const bool helps =
        evaluation_waits(c) && *c.rank.facts.train.val_workers < useful_workers(c.run) && !saturated(c.run);
    return helps ? filled(faster, c) + "\n# or: " + less : less;
}

// A step's batch is that of a loader, times the processes and the batches that each accumulates.
std::int64_t batches_of_a_step(const Case& c) {
    return std::int64_t{std::max(1, c.rank.facts.world_size)} * micro_batches(c.rank);
}

std::string larger_batch(const Case& c, const char* loader) {
    const std::string call =
        c.rank.facts.data.loader.empty() ? "batch_size = {}" : loader + std::string("(..., batch_size={})");
    return fmt::format(fmt::runtime(call + "  # {}choose the learning rate again"),
                       c.finding.wanted / batches_of_a_step(c), c.rank.facts.world_size > 1 ? "in each process; " : "");
}

constexpr const char* kLoader = "{loader_place}";

constexpr std::array kRows = {
    Row{"no-workers",
        [](const Case& c) {
            return no_workers(c) +
                   (is_stream(c) ? " Each worker would give the whole stream, so the data set has to divide it." : "");
        },
        [](const Case& c) {
            return text_of(kEveryone, &Row::code, c) + (is_stream(c)
                                                            ? "\n# in its __iter__: info = get_worker_info(); then "
                                                              "every info.num_workers-th sample from info.id on"
                                                            : "");
        },
        kLoader},
    Row{"worker-startup", {}, {}, kLoader},
    Row{"few-workers", {}, {}, kLoader},
    Row{"storage-bound",
        "Reading samples takes {read_share_of_workers:.0f} % of the workers' time without using a core: the storage is "
        "too slow, or the data set waits for something else.",
        packed_for_loader},
    Row{"decode-bound", slow_decoding, faster_decoding, kLoader},
    Row{"augment-bound",
        "The data set's own code and its transforms take {augment_share_of_workers:.0f} % of the workers' time.{busy} "
        "Make them cheaper.",
        "transforms: crop and resize first; whole arrays instead of Python loops;\n"
        "compute once what is the same in each epoch, and store it",
        kLoader},
    Row{"no-prefetch", {}, {}, kLoader},
    Row{"slow-loader", [](const Case& c) { return slow_loader(c, ", and no clock of the workers says why"); },
        [](const Case& c) {
            return saturated(c.run) ? fmt::format("loader = stoker.Loader({}, ...)",
                                                  path_of(c).empty() ? "dataset" : fmt::format("{:?}", path_of(c)))
                                    : "DataLoader(..., prefetch_factor=4, persistent_workers=True)  # then watch again";
        },
        kLoader},
    Row{"cold-cache", {}, [](const Case& c) { return is_packed(c.rank) ? "" : packed_for_loader(c); }},
    Row{"many-workers", {}, {}, kLoader},
    Row{"memory-pressure", "The program uses {memory_share:.0f} % of the memory that it may use.",
        [](const Case& c) {
            return smaller_loader(c, "DataLoader(..., num_workers={}, prefetch_factor=2)  # or a smaller batch_size",
                                  "DataLoader(..., batch_size)  # a smaller one");
        },
        kLoader},
    Row{"frequent-evaluation", frequent_evaluation,
        [](const Case& c) {
            return rarer_evaluation(c, "DataLoader(..., num_workers={useful}, persistent_workers=True)");
        },
        [](const Case& c) {
            const TrainFacts& train = c.rank.facts.train;
            return evaluation_waits(c) ? train.val_loader_place : train.evaluation_place;
        }},
    Row{"frequent-checkpoints",
        {},
        "if step % 1000 == 0: torch.save(...)",
        [](const Case& c) { return c.rank.facts.train.checkpoint_place; }},
    Row{"small-batch", {}, [](const Case& c) { return larger_batch(c, "DataLoader"); }, kLoader},
    Row{"pageable-copy", {}, {}, kLoader},
    Row{"single-tensor-optimizer", {}, {}, [](const Case& c) { return c.rank.facts.train.optimizer_place; }},
};

// Its workers are threads, which live as long as it does, and divide a stream; its queue is of all workers.
constexpr const char* kWorkers = "stoker.Loader(..., workers={useful})";

constexpr std::array kStokerRows = {
    Row{"no-workers", no_workers, kWorkers},
    Row{"few-workers", {}, kWorkers},
    Row{"many-workers", {}, kWorkers},
    Row{"no-prefetch", {}, "stoker.Loader(..., prefetch=8)"},
    Row{"slow-loader",
        [](const Case& c) { return slow_loader(c, "; the workers of stoker.Loader are not measured here"); },
        [](const Case& c) -> std::string {
            return !saturated(c.run) ? "stoker.Loader(..., prefetch=8)  # then watch again"
                   : c.rank.facts.data.format == "image_folder"
                       ? pack_data(c) + " --codec dct  # for JPEGs; then stoker.Loader reads packed.stk"
                       : "fewer or cheaper ops, or smaller images: the cores are the limit";
        }},
    Row{"memory-pressure",
        {},
        [](const Case& c) {
            return smaller_loader(c, "stoker.Loader(..., workers={}, prefetch=2)  # or a smaller batch_size",
                                  "stoker.Loader(..., batch_size)  # a smaller one");
        }},
    Row{"frequent-evaluation", {}, [](const Case& c) { return rarer_evaluation(c, kWorkers); }},
    Row{"small-batch", {}, [](const Case& c) { return larger_batch(c, "stoker.Loader"); }},
    Row{"pageable-copy", {}, "stoker.Loader(..., pin_memory=True); batch = batch.to(device, non_blocking=True)"},
    Row{"copy-not-overlapped",
        {},
        "# of stoker.Loader(..., pin_memory=True)\n"
        "with torch.cuda.stream(copy_stream): next_batch = batch.to(device, non_blocking=True)"},
    Row{"odd-sizes/samples", {}, "stoker.Loader(..., batch_size)  # {wanted} samples or tokens instead of {size:.0f}"},
    Row{"gpu-idle/queued", {}, "stoker.Loader(..., batch_size=2 * batch_size)  # choose the learning rate again"},
    Row{"memory-headroom/unused",
        {},
        "stoker.Loader(..., batch_size=2 * batch_size)  # choose the learning rate again"},
};

}  // namespace

constinit const std::span<const Row> kPytorch = kRows;
constinit const std::span<const Row> kStokerLoader = kStokerRows;

std::string offer_text(const Case& c) {
    return c.finding.with_loader == 0
               ? ""
               : filled(
                     " stoker.Loader gives {stoker_samples_per_second:.0f} samples a second of the same data on this "
                     "machine; the program trains {samples_per_second:.0f}, and {with_loader:.0f} with it.",
                     c);
}

std::string with_offer(const Case& c, const std::string& code) {
    if (c.finding.with_loader == 0) {
        return code;
    }
    const DataFacts& data = c.rank.facts.data;
    const std::string loader = fmt::format(
        "loader = stoker.Loader({:?}, batch_size={}, as_tuple=True,{}{}\n"
        "                       ops=stoker.transforms.from_torchvision(transform))  # that of your data set",
        data.path, c.rank.facts.train.batch_size.value_or(1) / batches_of_a_step(c),
        data.shuffle.value_or(true) ? "" : " shuffle=False,", data.drop_last.value_or(false) ? " drop_last=True," : "");
    return c.finding.loader_is_best
               ? fmt::format("import stoker\n{}\n# or only this, which gains less:\n{}", loader, code)
               : fmt::format("{}\n# or: import stoker\n{}", code, loader);
}

}  // namespace stoker

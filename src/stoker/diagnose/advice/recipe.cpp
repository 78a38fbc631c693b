// Advice for a run of Stoker: keys of its recipe, and commands.
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>

#include "stoker/base/pluralize.h"
#include "stoker/base/shell_quote.h"
#include "stoker/diagnose/advice/tables.h"
#include "stoker/diagnose/rules/wait_cause.h"

namespace stoker {
namespace {

std::string toml_text(std::string_view value) {
    return fmt::format("\"{}\"", value);
}

// As a word of a command to copy.
std::string data_path(const RankRecords& rank) {
    return rank.facts.data.path.empty() ? "DATA" : quoted_for_shell(rank.facts.data.path);
}

// The options by which `stoker pack` reads the fields of the recipe, [data.fields] and [data.fields.NAME].
std::string field_options(const RunView& records) {
    constexpr std::string_view kFields = "data.fields.";
    std::string options;
    for (const char* name : {"image", "label"}) {
        const auto found = records.recipe.find(fmt::format("{}{}", kFields, name));
        if (found != records.recipe.end() && !found->second.empty()) {
            options += fmt::format(" --{}-field {}", name, quoted_for_shell(found->second));
        }
    }
    struct Field {
        std::string from = {};
        std::string is = "value";
    };
    std::map<std::string, Field> fields;
    for (const auto& [key, value] : records.recipe) {
        const std::size_t dot = key.starts_with(kFields) ? key.find('.', kFields.size()) : std::string::npos;
        if (dot != std::string::npos) {
            Field& field = fields[key.substr(kFields.size(), dot - kFields.size())];
            const std::string name = key.substr(dot + 1);
            field.from = name == "from" ? "=" + value : field.from;
            field.is = name == "is" ? value : field.is;
        }
    }
    for (const auto& [name, field] : fields) {
        options += " --field " + quoted_for_shell(fmt::format("{}{}:{}", name, field.from, field.is));
    }
    return options;
}

// With `options`, and those that keep the fields of the recipe: a name that is left out would pack other fields, or
// none. A comment says how to train with the packed file. A separate split for validation is not packed.
std::string pack_command(const Case& c, std::string_view options = "") {
    const RunView& records = c.records;
    const bool own_split = c.rank.facts.train.val_samples.value_or(0) > 0 && records.sets("data.val", "") &&
                           (!records.recipe.contains("data.mix") || records.sets("data.mix", "[]"));
    return fmt::format("stoker pack {} packed.stk{}{}{}  # then train with --set data.train=packed.stk{}",
                       data_path(c.rank), options, field_options(records),
                       records.sets("data.first_frame", "true") ? " --first-frame" : "",
                       own_split ? " --set data.val=" + data_path(c.rank) : "");
}

// The share of the images of the judged steps that the GPU decoded.
double share_on_device(const RunSummary& run) {
    const StageTimes workers = run.workers.value_or(StageTimes{});
    return static_cast<double>(workers.on_device) / static_cast<double>(std::max<std::int64_t>(workers.samples, 1));
}

std::string slow_storage(const Case& c) {
    return filled(
               "Reading takes {read_share_of_workers:.0f} % of the workers' time while cores are idle: the storage is "
               "too slow. ",
               c) +
           (c.is("small")       ? "The cache does not hold all of the data."
            : c.is("ram")       ? "The data fit in memory: cache them there."
            : c.is("disk")      ? "Keep what was read on the local disk."
            : is_packed(c.rank) ? "Copy the data to a faster disk."
                                : "Pack the data into one file, or copy them to a faster disk.");
}

std::string pack_what_is_not(const Case& c) {
    return is_packed(c.rank) ? "" : pack_command(c);
}

const char* saturation(const Case& c) {
    return saturated(c.run) ? ", and all cores are busy: more workers will not help" : "";
}

std::string slow_decoding(const Case& c) {
    const std::string& codec = c.rank.facts.data.codec;
    return fmt::format("Decoding {} takes {:.0f} % of the workers' time{}. ", codec.empty() ? "images" : codec,
                       100 * decode_share(c.run), saturation(c)) +
           (c.is("gpu")       ? "Also let the GPU decode."
            : c.is("smaller") ? fmt::format("The GPU decodes {:.0f} % of the images already. Store smaller ones.",
                                            100 * share_on_device(c.run))
            : c.is("raw")     ? "Pack the data as `raw` pixels, or smaller."
            : c.is("dct")     ? "Pack the data as `dct`, which needs no Huffman decoding."
                          : "Pack the data as `dct`, which needs no Huffman decoding, and which the GPU decodes where "
                            "the workers fall behind.");
}

std::string packed_for_decoding(const Case& c) {
    return c.is("gpu")       ? ""
           : c.is("smaller") ? pack_command(c, " --codec dct --resize-shorter 256")
                             : pack_command(c, c.is("raw") ? " --codec raw" : " --codec dct");
}

std::string slow_ops(const Case& c) {
    return fmt::format("The ops of data.train_ops take {:.0f} % of the workers' time{}. {}", 100 * augment_share(c.run),
                       saturation(c),
                       c.is("gpu") ? "Also let the GPU decode: it then runs the ops for its images."
                                   : "Crop or resize before the costly ops, or store smaller images.");
}

std::string slow_loader(const Case& c) {
    return filled("The trainer waits for its data for {wait_share:.0f} % of its time. ", c) +
           (c.rank.profile ? "The timeline" : "`stoker profile`") + " shows each batch and worker." +
           (c.is("no-core") ? filled(" All cores are busy: it has none for {core_wait_share:.0f} % of its time.", c)
                            : "");
}

bool is_exported(const Case& c) {
    const auto file = c.records.recipe.find("model.export");
    return file != c.records.recipe.end() && !file->second.empty();
}

constexpr const char* kLargerBatch = "a larger data.batch_size, with another learning rate";

constexpr std::array kRows = {
    Row{"storage-bound", slow_storage, pack_what_is_not},
    Row{"decode-bound", slow_decoding, packed_for_decoding},
    Row{"augment-bound", slow_ops,
        [](const Case& c) -> std::string {
            return c.is("gpu") ? "" : "train_ops: put crops and resizes before colour and affine ops";
        }},
    Row{"slow-loader", slow_loader,
        [](const Case& c) -> std::string { return c.rank.profile ? "" : "stoker profile RUN/recipe.toml -o profile"; }},
    Row{"cold-cache", {}, pack_what_is_not},
    Row{"fp32-on-tensor-cores",
        {},
        [](const Case& c) {
            return is_exported(c)
                       ? text_of(kEveryone, &Row::code, c) + "  # in the model and the loss, before they are exported"
                       : "";
        }},
};

// The step is eager although the recipe would capture it: it says why.
std::string eager(const Case& c) {
    const std::string& compiled = c.rank.facts.train.compiled;
    return compiled.starts_with("eager")
               ? fmt::format("fix why the step is not captured ({}), or a larger batch", compiled)
               : kLargerBatch;
}

constexpr const char* kCopies =
    "stoker doctor  # the PCIe link's width and generation; else fewer or smaller fields in a batch";

constexpr std::array kKeyless = {
    Row{"launch-bound", {}, eager},
    Row{"sync-points",
        {},
        "in the model, the loss and the metrics: no item(), no copy to the host, no size that depends on values"},
    Row{"pageable-copy", {}, kCopies},
    Row{"copy-not-overlapped", {}, kCopies},
    Row{"cudnn-search", {}, "a fixed size in data.train_ops, such as a crop: cuDNN searches once for each size"},
    Row{"gloo-on-gpu", {}, "stoker doctor  # looks for NCCL; training says at its start why it is not used"},
    Row{"gpu-idle/queued", {}, kLargerBatch},
    Row{"gpu-idle", {}, "the trace in ui.perfetto.dev shows what the host does meanwhile"},
    Row{"memory-headroom/unused", {}, kLargerBatch},
    // In a trace alone, which says nothing about the workers.
    Row{"input-bound", "Waiting for the next batch costs {lost_share:.0f} % of the time.",
        "stoker diagnose PROFILE  # the folder that stoker profile wrote, above trace/, says what the workers do"},
};

std::string double_batch(const Case& c) {
    const std::int64_t batch = c.rank.facts.train.batch_size.value_or(0);
    return batch > 0 ? fmt::to_string(2 * batch) : "";
}

// Settings that can give memory back. A queue of fewer than three batches is too short (no-prefetch).
constexpr int kShortestQueue = 3;

bool has_long_queue(const Case& c) {
    return c.rank.facts.data.prefetch.value_or(0) > kShortestQueue;
}

bool has_cache(const Case& c) {
    return c.rank.facts.data.cache == "ram";
}

// The parts of a batch are computed one by one, but loaded together.
std::string smaller_parts(const Case& c) {
    const RunFacts& facts = c.rank.facts;
    const std::int64_t parts = 2 * std::int64_t{micro_batches(c.rank)};
    const bool helps = !has_long_queue(c) && !has_cache(c) && facts.device.type != "cuda" &&
                       facts.train.batch_size.value_or(0) >= parts;
    return helps ? fmt::to_string(parts) : "";
}

// Twice the micro-batches, for stages that share a batch.
std::string more_parts(const Case& c) {
    const TrainFacts& train = c.rank.facts.train;
    const std::int64_t parts = std::max(1, train.accumulate.value_or(1));
    const auto stages = 1 + std::ranges::count(train.stages, '|');
    const bool fit = train.batch_size.value_or(0) * stages >= 2 * parts * c.rank.facts.world_size;
    return fit ? fmt::to_string(2 * parts) : "";
}

bool may_compress(const Case& c) {
    return !c.is("stages") && (!c.records.recipe.contains("train.compress_gradients") ||
                               c.records.sets("train.compress_gradients", "none"));
}

std::string larger_batch(const Case& c) {
    constexpr std::int64_t kMost = 1 << 20;
    const bool fits = !c.is("stages") && !may_compress(c) && c.rank.facts.train.batch_size.value_or(0) < kMost;
    return fits ? double_batch(c) : "";
}

constexpr std::array kKeys = {
    Key{"no-workers", "data.workers", "{useful}"},
    Key{"few-workers", "data.workers", "{useful}"},
    Key{"many-workers", "data.workers", "{useful}"},
    Key{"storage-bound", "data.cache",
        [](const Case& c) { return c.finding.place.empty() ? "" : toml_text(c.finding.place); }},
    Key{"storage-bound", "data.cache_as",
        [](const Case& c) { return c.finding.place.empty() ? "" : toml_text("encoded"); }},
    Key{"storage-bound", "data.cache_bytes",
        [](const Case& c) { return c.finding.wanted > 0 ? fmt::to_string(c.finding.wanted) : ""; }},
    Key{"decode-bound/gpu", "data.decode_on", "\"auto\""},
    Key{"augment-bound/gpu", "data.decode_on", "\"auto\""},
    Key{"no-prefetch", "data.prefetch", "4"},
    Key{"memory-pressure", "data.prefetch",
        [](const Case& c) { return has_long_queue(c) ? fmt::to_string(kShortestQueue) : ""; }},
    Key{"memory-pressure", "data.cache", [](const Case& c) { return has_cache(c) ? toml_text("none") : ""; }},
    Key{"memory-pressure", "train.accumulate", smaller_parts},
    Key{"slow-precision", "train.precision", "\"fp32\""},
    Key{"frequent-evaluation", "train.evaluate_every", "{wanted}"},
    Key{"frequent-checkpoints", "train.checkpoint_every",
        [](const Case& c) {
            const std::int64_t every = c.finding.wanted;
            return fmt::format("\"{} {}\"", every, c.is("steps") ? "steps" : plural(every, "epoch"));
        }},
    Key{"small-batch", "data.batch_size", "{wanted}"},
    Key{"pageable-copy", "data.pin_memory", "true"},
    Key{"launch-bound", "train.compile", "\"auto\""},
    Key{"fp32-on-tensor-cores", "train.precision",
        [](const Case& c) { return is_exported(c) ? "" : toml_text(c.is("fp16") ? "fp16" : "bf16"); }},
    Key{"gpu-idle/queued", "data.batch_size", double_batch},
    Key{"memory-headroom/unused", "data.batch_size", double_batch},
    Key{"memory-headroom/recompute", "train.gradient_checkpointing", "true"},
    Key{"memory-headroom/full", "train.accumulate",
        [](const Case& c) { return fmt::to_string(2 * micro_batches(c.rank)); }},
    Key{"communication/stages", "train.accumulate", more_parts},
    Key{"communication", "train.compress_gradients",
        [](const Case& c) { return may_compress(c) ? toml_text("bf16") : ""; }},
    Key{"communication", "data.batch_size", larger_batch},
};

}  // namespace

constinit const std::span<const Row> kRecipe = kRows;
constinit const std::span<const Row> kWithoutKey = kKeyless;
constinit const std::span<const Key> kRecipeKeys = kKeys;

}  // namespace stoker

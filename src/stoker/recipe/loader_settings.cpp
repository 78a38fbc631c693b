// One row for each setting. Rows that are arguments of stoker.Loader say what differs in Python.
#include "stoker/recipe/loader_settings.h"

#include "stoker/recipe/schema_keys.h"

namespace stoker {
namespace {

using namespace schema;
using Of = PythonArgument::Of;

// Most likely a share without its percent sign.
bool is_plain_number(std::string_view text) {
    return text.find_first_of("0123456789") != text.npos && text.find_first_not_of("0123456789.") == text.npos;
}

SchemaKey cache_bytes() {
    return value_key(
        "data.cache_bytes", field(&Recipe::data, &DataRecipe::cache_bytes),
        "bytes of at least 0, or text such as \"4GiB\" (KiB MiB GiB TiB, KB MB GB TB)", "size limit of the cache",
        [](const TomlValue& value) {
            const auto* text = value.as<std::string>();
            return text != nullptr ? parse_byte_size(*text) : Between{0, kAny}.read(value);
        },
        [](std::int64_t bytes) { return toml_string(byte_size_text(bytes)); });
}

SchemaKey memory() {
    return value_key(
        "data.memory", field(&Recipe::data, &DataRecipe::memory),
        "\"auto\", or at least 64MiB: text such as \"8GiB\" (KiB MiB GiB TiB, KB MB GB TB), or bytes",
        "memory that this process may use: data that would take more is refused, and a cache in memory stops growing "
        "before; `auto`: what the machine and its cgroups allow",
        [](const TomlValue& value) -> std::optional<std::int64_t> {
            const auto* text = value.as<std::string>();
            if (text != nullptr && *text == "auto") {
                return 0;
            }
            const auto bytes = text != nullptr ? parse_byte_size(*text) : Between{0, kAny}.read(value);
            return bytes && *bytes >= kLeastMemory ? bytes : std::nullopt;
        },
        [](std::int64_t bytes) { return toml_string(bytes == 0 ? "auto" : byte_size_text(bytes)); });
}

SchemaKey bad_samples() {
    return value_key(
        "data.bad_samples", field(&Recipe::data, &DataRecipe::bad_samples),
        "a number of samples of at least 0, or a share from 0% to 100% such as \"0.1%\"",
        "how many bad samples an epoch may have, over all ranks: each is replaced by another one and listed in "
        "the run's quarantine.jsonl; with more, the run stops; a share above 0% allows at least one, and validation "
        "data has a budget of its own",
        [](const TomlValue& value) {
            if (const auto* text = value.as<std::string>()) {
                return parse_bad_samples(*text);
            }
            const auto count = Between{0, kAny}.read(value);
            return count ? std::optional(BadSamples{.count = *count}) : std::nullopt;
        },
        bad_samples_toml);
}

SchemaKey channels() {
    using Channels = std::optional<std::int64_t>;
    return value_key(
        "data.channels", field(&Recipe::data, &DataRecipe::channels), "\"auto\", 1 or 3",
        "channels of decoded image files: 1 is grey, 3 is RGB; `auto`: 3, and in evaluation and prediction those "
        "that the model was trained with",
        [](const TomlValue& value) -> std::optional<Channels> {
            if (const auto* text = value.as<std::string>(); text != nullptr && *text == "auto") {
                return Channels();
            }
            const auto* count = value.as<std::int64_t>();
            return count != nullptr && (*count == 1 || *count == 3) ? std::optional<Channels>(*count) : std::nullopt;
        },
        [](const Channels& count) { return count ? fmt::to_string(*count) : std::string("\"auto\""); });
}

}  // namespace

SchemaKey seed_setting() {
    SchemaKey key = integer("seed", field(&Recipe::seed), {0, kAny},
                            "seed of the sample order, all augmentations and the initial weights");
    key.write = [](const Recipe& recipe) {
        if (recipe.seed > static_cast<std::uint64_t>(kAny)) {
            throw InvalidArgument(
                {"seed", fmt::format("at most {}, TOML's largest integer", kAny), fmt::format("{}", recipe.seed)});
        }
        return fmt::format("{}", recipe.seed);
    };
    return key.in_python(
        {.type = "int",
         .about = "another order in each epoch, and other random ops, for each seed; a stream keeps its own order"});
}

std::vector<SchemaKey> data_settings() {
    const auto at = [](auto member) { return field(&Recipe::data, member); };
    const auto fields_at = [](auto member) {
        return [member](auto& recipe) -> auto& {
            return recipe.data.fields.*member;
        };
    };
    const auto any = [](std::string_view) { return true; };
    std::vector<SchemaKey> keys = {
        text(
            "data.train", at(&DataRecipe::train), "a data set", [](std::string_view given) { return !given.empty(); },
            "the data set to train on")
            .in_python({.name = "source", .of = Of::nothing}),
        text(
            "data.val", at(&DataRecipe::val), "a data set, or a share above 0% and below 100% such as \"10%\"",
            [](std::string_view given) {
                return !(given.ends_with('%') || is_plain_number(given)) || parse_share(given);
            },
            "the data set to evaluate on, or the share of `train` to hold out for it; empty: the test split of `train` "
            "if it has one, otherwise no evaluation"),
        integer("data.batch_size", at(&DataRecipe::batch_size), {1, kMost},
                "samples per optimiser step, over all ranks")
            .in_python({.type = "int", .about = "samples in a batch of this rank, as in torch's DataLoader"}),
        integer_or_auto("data.workers", at(&DataRecipe::workers), {0, 1024},
                        "threads that read, decode and augment; 0: the training thread does the work")
            .in_python({.type = "int | Literal[\"auto\"]",
                        .about =
                            "threads, or processes for Python data sets; 0 works in the thread that asks for a batch; "
                            "`auto`: the cores that this process may use, for a stream 1"}),
        integer("data.prefetch", at(&DataRecipe::prefetch), {1, 1024}, "batches in flight beyond the one in use")
            .in_python({.type = "int",
                        .about = "batches in flight beyond the one in use, and beyond those that processes work at"}),
        flag("data.pin_memory", at(&DataRecipe::pin_memory),
             "page-locked batch memory if a GPU trains; false: plain memory")
            .in_python({.type = "bool",
                        .fallback = "False",
                        .about = "tensors in pinned memory, where there is a CUDA device"}),
        texts("data.mix", at(&DataRecipe::mix), 256,
              "more training sets with the same classes as `train`; their samples follow those of `train`"),
        numbers("data.weights", at(&DataRecipe::weights), {.low = 0, .low_allowed = false}, 257,
                "sampling weights of `train` and of each data set in `mix`; empty: in proportion to their sizes")
            .in_python({.type = "Sequence[float] | None",
                        .fallback = "None",
                        .about = "for a list of data sets: how often samples of each are drawn, such as [3, 1]; None: "
                                 "by their sizes",
                        .of = Of::engine}),
        flag("data.balance", at(&DataRecipe::balance), "draws every class equally often")
            .in_python({.type = "bool", .of = Of::engine}),
        integer("data.epoch_samples", at(&DataRecipe::epoch_samples), {0, kAny},
                "samples per epoch; 0: all. An epoch continues the pass over the data where the one before ended")
            .in_python(
                {.type = "int | None",
                 .fallback = "None",
                 .about = "samples in an epoch of all ranks, which continues where the one before ended; None: all",
                 .of = Of::engine}),
        bad_samples().in_python(
            {.type = "int | str",
             .about =
                 "how many samples of an epoch may be replaced because they cannot be decoded, or, of a Python data "
                 "set, because they raise; or their share; each is warned of once and kept in `loader.bad_samples`"}),
        one_of("data.cache", at(&DataRecipe::cache), {"none", "ram", "disk", "device"},
               "keeps samples after their first read, in memory or on a local disk; for remote data `disk` keeps the "
               "fetched bytes, for later runs too; `device`: all images on the GPU, read at the start")
            .in_python({.type = "Literal[\"none\", \"ram\", \"disk\"]",
                        .about = "keeps samples for the next epochs, in memory or on a local disk",
                        .of = Of::engine}),
        cache_bytes().in_python({.type = "int", .fallback = "4 << 30"}),
        text("data.cache_dir", at(&DataRecipe::cache_dir), "a folder", any,
             "folder of the cache for `cache = \"disk\"`; empty: the user's cache folder")
            .in_python({.name = "STOKER_CACHE", .of = Of::nothing}),
        one_of("data.cache_as", at(&DataRecipe::cache_as), {"decoded", "encoded"},
               "`decoded`: pixels, after the ops before the first random one; `encoded`: as stored, which is smaller"),
        memory(),
        flag("data.shuffle", at(&DataRecipe::shuffle), "a new order every epoch, given by `seed`")
            .in_python({.type = "bool"}),
        integer_or_auto(
            "data.shuffle_window", at(&DataRecipe::shuffle_window), {0, kAny},
            "shuffles the shards, then samples only within windows of this many, so that reading stays almost "
            "sequential; 0: shuffles everything. `auto`: 0, and for remote data as many samples as 128 MiB hold")
            .in_python({.type = "int | Literal[\"auto\"]", .of = Of::engine}),
        flag("data.drop_last", at(&DataRecipe::drop_last), "drop an epoch's last batch if it is not full")
            .in_python({.type = "bool"}),
        flag("data.exif", at(&DataRecipe::exif), "rotate images by their EXIF orientation")
            .in_python({.type = "bool", .of = Of::opened}),
        flag("data.first_frame", at(&DataRecipe::first_frame),
             "read the first frame of an animated WebP, which is a bad sample otherwise")
            .in_python({.type = "bool", .of = Of::opened}),
        channels().in_python({.type = "int | None",
                              .fallback = "None",
                              .about = "channels of decoded image files: 1 is grey; None: 3",
                              .of = Of::opened}),
        one_of("data.decode", at(&DataRecipe::decode), {"exact", "fast"},
               "`fast`: images that a resize makes smaller may be decoded at 1/2, 1/4 or 1/8 of their size")
            .in_python({.type = "Literal[\"exact\", \"fast\"]", .of = Of::engine}),
        one_of("data.decode_on", at(&DataRecipe::decode_on), {"auto", "cpu", "device"},
               "where dct records become pixels; `device`: on the GPU; `auto`: on the CPU, and on the GPU where the "
               "workers fall behind the steps"),
        integer("data.views", at(&DataRecipe::views), {1, 16},
                "images of each sample, such as the two views of contrastive learning: the ops run on each with "
                "random numbers of its own; the batch has `image`, `image_2`, ...")
            .in_python({.type = "int", .of = Of::engine}),
        ops("data.train_ops", at(&DataRecipe::train_ops), "transforms of training images, in order")
            .in_python({.name = "ops",
                        .type = "Ops",
                        .fallback = "()",
                        .about = "stoker.transforms, or tables as in a recipe; they run on the image, on masks and on "
                                 "boxes; images "
                                 "are divided by 255 also without Normalize, unless dtype is uint8; InPython as the "
                                 "last op: see there",
                        .of = Of::opened}),
        ops("data.val_ops", at(&DataRecipe::val_ops), "transforms of validation images, in order"),
        integer("data.context", at(&DataRecipe::context), {0, std::int64_t{1} << 20},
                "token streams: the tokens of a sample, beside the one behind them; 0: not set")
            .in_python({.of = Of::nothing}),
        text("data.fields.image", fields_at(&FieldsRecipe::image), "a name", any,
             "the field that holds the images; empty: `images`, `image`, `x` or `data`")
            .in_python({.of = Of::nothing}),
        text("data.fields.label", fields_at(&FieldsRecipe::label), "a name", any,
             "the field that holds the labels; empty: `labels`, `label`, `y` or `targets`")
            .in_python({.of = Of::nothing}),
    };
    keys.front().required = true;
    return keys;
}

const std::vector<PythonArgument>& python_settings() {
    static const std::vector<PythonArgument> settings = {
        {"rank", "int", "0", "which part of each batch of world_size * batch_size samples this process gets"},
        {"world_size", "int", "1", "processes that share each batch"},
        {"dtype", "Any", "\"float32\"",
         "of images: float32, float16, bfloat16, uint8 (not normalised), or the same of torch or NumPy", Of::engine},
        {"channels_last", "bool", "False", "images (N, C, H, W) in channels-last memory", Of::engine},
        {"as_tuple", "bool | Sequence[str]", "False",
         "names of fields: batches are tuples of these; True: (\"image\", \"label\")"},
        {"framework", "Literal[\"auto\", \"torch\", \"numpy\", \"jax\"]", "\"auto\"",
         "of the tensors; `auto`: torch where it is installed, otherwise NumPy"},
        {"collate_fn", "Callable[[list[Any]], Any] | None", "None",
         "joins a list of samples of a Python data set to a batch", Of::python},
        {"multiprocessing_context", "Literal[\"fork\", \"spawn\", \"forkserver\"] | None", "None",
         "how processes are started; None: Python's default", Of::python},
        {"device", "Any", "None",
         "copies batches there, one ahead of their use (stoker.torch.DevicePrefetcher), through pinned memory; to a "
         "GPU images go as bytes and are divided by 255 and normalised there, with the bits that they have without "
         "`device`"},
    };
    return settings;
}

}  // namespace stoker

// The keys of [data] and [data.fields].
#include <algorithm>

#include "stoker/recipe/schema_keys.h"

namespace stoker::schema {
namespace {

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

}  // namespace

std::vector<SchemaKey> data_keys() {
    const auto at = [](auto member) { return field(&Recipe::data, member); };
    const auto fields_at = [](auto member) {
        return [member](auto& recipe) -> auto& {
            return recipe.data.fields.*member;
        };
    };
    std::vector<SchemaKey> keys = {
        text(
            "data.train", at(&DataRecipe::train), "a data set", [](std::string_view given) { return !given.empty(); },
            "the data set to train on")
            .in_python({.name = "source"}),
        text(
            "data.val", at(&DataRecipe::val), "a data set, or a share above 0% and below 100% such as \"10%\"",
            [](std::string_view given) {
                return !(given.ends_with('%') || is_plain_number(given)) || parse_share(given);
            },
            "the data set to evaluate on, or the share of `train` to hold out for it; empty: the test split of `train` "
            "if it has one, otherwise no evaluation"),
        integer("data.batch_size", at(&DataRecipe::batch_size), {1, kMost},
                "samples per optimiser step, over all ranks")
            .in_python({"int", "all", "samples in a batch of this rank, as in torch's DataLoader"}),
        integer_or_auto("data.workers", at(&DataRecipe::workers), {0, 1024},
                        "threads that read, decode and augment; 0: the training thread does the work")
            .in_python({"int | Literal[\"auto\"]", "all",
                        "threads or processes; 0 works in the thread that asks for a batch; `auto`: the cores that "
                        "this process may use, for a stream 1"}),
        integer("data.prefetch", at(&DataRecipe::prefetch), {1, 1024}, "batches in flight beyond the one in use")
            .in_python(
                {"int", "all", "batches in flight beyond the one in use, and beyond those that processes work at"}),
        flag("data.pin_memory", at(&DataRecipe::pin_memory),
             "page-locked batch memory if a GPU trains; false: plain memory"),
        texts("data.mix", at(&DataRecipe::mix), 256,
              "more training sets with the same classes as `train`; their samples follow those of `train`"),
        numbers("data.weights", at(&DataRecipe::weights), {.low = 0, .low_allowed = false}, 257,
                "sampling weights of `train` and of each data set in `mix`; empty: in proportion to their sizes")
            .in_python(
                {"Sequence[float] | None", "engine",
                 "for a list of data sets: how often samples of each are drawn, such as [3, 1]; None: by their sizes",
                 "None"}),
        flag("data.balance", at(&DataRecipe::balance), "draws every class equally often").in_python({"bool", "engine"}),
        integer("data.epoch_samples", at(&DataRecipe::epoch_samples), {0, kAny},
                "samples per epoch; 0: all. An epoch continues the pass over the data where the one before ended")
            .in_python({"int | None", "engine",
                        "samples in an epoch of all ranks, which continues where the one before ended; None or 0: all",
                        "None"}),
        bad_samples().in_python(
            {"int | str", "all",
             "how many samples of an epoch may be replaced because they cannot be decoded, or their share; each is "
             "warned of once and kept in loader.bad_samples. Of a Python data set: samples that raise"}),
        one_of("data.cache", at(&DataRecipe::cache), {"none", "ram", "disk", "device"},
               "keeps samples after their first read, in memory or on a local disk; for remote data `disk` keeps the "
               "fetched bytes, for later runs too; `device`: all images on the GPU, read at the start")
            .in_python({"Literal[\"none\", \"ram\", \"disk\"]", "engine",
                        "keep samples for the next epochs in memory or on a local disk"}),
        cache_bytes().in_python({"int", "all", "", "4 << 30"}),
        text("data.cache_dir", at(&DataRecipe::cache_dir), "a folder", kAnyText,
             "folder of the cache for `cache = \"disk\"`; empty: the user's cache folder")
            .in_python({.name = "STOKER_CACHE"}),
        one_of("data.cache_as", at(&DataRecipe::cache_as), {"decoded", "encoded"},
               "`decoded`: pixels, after the ops before the first random one; `encoded`: as stored, which is smaller"),
        memory(),
        flag("data.shuffle", at(&DataRecipe::shuffle), "a new order every epoch, given by `seed`").in_python({"bool"}),
        integer_or_auto(
            "data.shuffle_window", at(&DataRecipe::shuffle_window), {0, kAny},
            "shuffles the shards, then samples only within windows of this many, so that reading stays almost "
            "sequential; 0: shuffles everything. `auto`: 0, and for remote data as many samples as 128 MiB hold")
            .in_python({"int | Literal[\"auto\"]", "engine"}),
        flag("data.drop_last", at(&DataRecipe::drop_last), "drop an epoch's last batch if it is not full")
            .in_python({"bool"}),
        flag("data.jpeg_index", at(&DataRecipe::jpeg_index),
             "keeps an index in the user's cache folder, so that later epochs and runs decode only a crop's part of a "
             "JPEG")
            .in_python({"bool", "opened"}),
        flag("data.exif", at(&DataRecipe::exif), "rotate images by their EXIF orientation")
            .in_python({"bool", "opened"}),
        flag("data.first_frame", at(&DataRecipe::first_frame),
             "read the first frame of an animation, which is a bad sample otherwise")
            .in_python({"bool", "opened"}),
        integer_or(
            "auto", "data.channels", at(&DataRecipe::channels), "\"auto\", 1 or 3",
            "channels of image files: 1 is grey, 3 is RGB; 3 also makes three equal channels of grey arrays; `auto`: 3 "
            "for files, and in evaluation and prediction those that the model was trained with",
            [](const TomlValue& value) {
                const auto count = Between{1, 3}.read(value);
                return count == 2 ? std::nullopt : count;
            })
            .in_python({"int | None", "opened",
                        "1: image files become grey; 3: grey arrays get three equal channels; None: image files become "
                        "RGB",
                        "None"}),
        one_of("data.decode", at(&DataRecipe::decode), {"exact", "fast"},
               "`fast`: images that a resize makes smaller may be decoded at 1/2, 1/4 or 1/8 of their size")
            .in_python({"Literal[\"exact\", \"fast\"]", "engine"}),
        one_of(
            "data.decode_on", at(&DataRecipe::decode_on), {"auto", "cpu", "device"},
            "the side that makes pixels of dct records and of JPEGs of the index; `device`: the GPU; `auto`: the CPU, "
            "and the GPU for dct records where the workers fall behind the steps"),
        integer("data.frames", at(&DataRecipe::frames), {0, 65535},
                "clips and volumes: the frames of a sample, (T, C, H, W), from a random place on, in evaluation and "
                "without `shuffle` from the middle; arrays of three sides are then (T, H, W), and a folder of images "
                "within its class is a clip; 0: images, or all frames of clips")
            .in_python({"int", "engine"}),
        integer("data.stride", at(&DataRecipe::stride), {1, 65535},
                "the distance of neighbouring frames: 8 frames with a stride of 4 are i, i + 4, ... i + 28; a shorter "
                "video repeats its last frame")
            .in_python({"int", "engine"}),
        integer(
            "data.clips_per_video", at(&DataRecipe::clips_per_video), {1, 1024},
            "clips of each video or sound in an epoch: at random places, in evaluation and without `shuffle` evenly "
            "spread; `index` counts them")
            .in_python({"int", "engine"}),
        integer("data.sample_rate", at(&DataRecipe::sample_rate), {0, 768000},
                "sounds: the rate in Hz that they are resampled to; needed for sounds alone")
            .in_python({"int", "engine"}),
        number("data.seconds", at(&DataRecipe::seconds), {0, 86400},
               "sounds: the length of a sample, from a random place on, in evaluation and without `shuffle` from the "
               "middle; a shorter sound ends with zeros; 0: all of it")
            .in_python({"float", "engine"}),
        integer("data.views", at(&DataRecipe::views), {1, 16},
                "images of each sample, such as the two views of contrastive learning: the ops run on each with "
                "random numbers of its own; the batch has `image`, `image_2`, ...")
            .in_python({"int", "engine"}),
        ops("data.train_ops", at(&DataRecipe::train_ops), "transforms of training images, in order")
            .in_python({"Ops", "opened",
                        "stoker.transforms, or tables as in a recipe's train_ops; they run on the image, on masks and "
                        "on boxes. Images are divided by 255 also without Normalize, unless dtype is uint8. InPython "
                        "as the last op: see there",
                        "()", "ops"}),
        ops("data.val_ops", at(&DataRecipe::val_ops), "transforms of validation images, in order"),
        text("data.bucket_by", at(&DataRecipe::bucket_by), "a field of any length, or `image`", kAnyText,
             "a field of any length: a batch has samples of similar length, padded to the length of that batch; "
             "`image`: a batch has images of one of the sizes of `aspect_crop`")
            .in_python({"str", "engine"}),
        integer(
            "data.batch_tokens", at(&DataRecipe::batch_tokens), {0, std::int64_t{1} << 40},
            "with `bucket_by`: a batch has as many samples as this many entries hold, padding included, in place of "
            "`batch_size`; 0: off")
            .in_python({"int", "engine"}),
        integer("data.context", at(&DataRecipe::context), {0, std::int64_t{1} << 20},
                "token streams: the tokens of a sample, beside the one behind them; 0: not set")
            .in_python({}),
        text("data.fields.image", fields_at(&FieldsRecipe::image), "a name", kAnyText,
             "the field that holds the images; empty: `images`, `image`, `x` or `data`")
            .in_python({.name = "image="}),
        text("data.fields.label", fields_at(&FieldsRecipe::label), "a name", kAnyText,
             "the field that holds the labels; empty: `labels`, `label`, `y` or `targets`"),
    };
    keys.front().required = true;
    return keys;
}

}  // namespace stoker::schema

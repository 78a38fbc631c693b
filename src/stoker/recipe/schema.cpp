// One entry per key of a recipe. schema_conflicts.cpp has the rules between keys.
#include "stoker/recipe/schema.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "stoker/base/pluralize.h"
#include "stoker/recipe/schema_keys.h"

namespace stoker {
namespace {

using namespace schema;

constexpr std::int64_t kMost = std::int64_t{1} << 30;
constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

constexpr auto kAnyText = [](std::string_view) { return true; };

// Most likely a share without its percent sign.
bool is_plain_number(std::string_view text) {
    return text.find_first_of("0123456789") != text.npos && text.find_first_not_of("0123456789.") == text.npos;
}

bool is_device(std::string_view name) {
    if (name == "auto" || name == "cpu" || name == "cuda") {
        return true;
    }
    constexpr std::string_view kPrefix = "cuda:";
    constexpr std::string_view kDigits = "0123456789";
    const std::string_view index = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : "";
    return !index.empty() && index.size() <= 2 && index.find_first_not_of(kDigits) == std::string_view::npos;
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

template <typename Field>
SchemaKey interval(std::string name, const Field& at, std::int64_t least, std::string about) {
    SchemaKey key = value_key(
        std::move(name), at,
        fmt::format("text such as \"{}\", \"2 epochs\" or \"200 steps\"", pluralize(least, "epoch")), std::move(about),
        [=](const TomlValue& value) {
            const auto* text = value.as<std::string>();
            return text != nullptr ? parse_interval(*text, least) : std::nullopt;
        },
        [](const Interval& every) { return toml_string(interval_text(every)); });
    key.text = true;
    return key;
}

SchemaKey seed() {
    SchemaKey key = integer("seed", field(&Recipe::seed), {0, kAny},
                            "seed of the sample order, all augmentations and the initial weights");
    key.write = [](const Recipe& recipe) {
        if (recipe.seed > static_cast<std::uint64_t>(kAny)) {
            throw InvalidArgument(
                {"seed", fmt::format("at most {}, TOML's largest integer", kAny), fmt::format("{}", recipe.seed)});
        }
        return fmt::format("{}", recipe.seed);
    };
    return key.in_python({"int", "all", "another order in each epoch; a stream keeps its own"});
}

std::vector<SchemaKey> root_keys() {
    return {
        seed(),
        text("device", field(&Recipe::device), "\"auto\", \"cpu\", \"cuda\" or \"cuda:N\"", is_device,
             "where the model runs; `auto`: a GPU if there is one"),
        one_of("task", field(&Recipe::task),
               {"classification", "multilabel", "regression", "segmentation", "language", "custom"},
               "what the model learns, which decides on target, loss and metrics; `custom`: a loss of a C++ program, "
               "or of `model.export`"),
    };
}

SchemaKey model_name() {
    SchemaKey key = one_of("model.name", field(&Recipe::model, &ModelRecipe::name),
                           {"mlp", "convnet", "resnet18", "resnet34", "resnet50", "vit_s_16", "fcn_resnet50", "r3d_18"},
                           "the model");
    key.read = [read = key.read](Recipe& recipe, const TomlValue& value, const Place& place) {
        try {
            read(recipe, value, place);
        } catch (const InvalidArgument& error) {
            throw InvalidArgument(
                std::string(error.what()) +
                "; for another one write it in Python, stoker.export_training(net, loss, (images, labels), "
                "\"net.pt2\"), and set model.export = \"net.pt2\"");
        }
    };
    return key;
}

SchemaKey ignore_index() {
    constexpr std::int64_t kNone = -1;  // no mask and no vocabulary has it
    constexpr Between kClass{-kMost, kMost};
    using Value = std::optional<std::int64_t>;
    return value_key(
        "train.ignore_index", field(&Recipe::train, &TrainRecipe::ignore_index),
        "\"auto\", \"none\" or " + kClass.text(),
        "segmentation, language: a class that loss and metrics leave out; `none`: all count; `auto`: 255 in masks, "
        "-100 "
        "of tokens",
        [=](const TomlValue& value) -> std::optional<Value> {
            if (const auto* text = value.as<std::string>(); text != nullptr && (*text == "auto" || *text == "none")) {
                return *text == "auto" ? Value() : Value(kNone);
            }
            const Value given = kClass.read(value);
            return given ? std::optional<Value>(given) : std::nullopt;
        },
        [=](const Value& value) {
            return !value ? toml_string("auto") : value == kNone ? toml_string("none") : fmt::to_string(*value);
        });
}

SchemaKey class_weights() {
    return value_key(
        "train.class_weights", field(&Recipe::train, &TrainRecipe::class_weights),
        "\"balanced\", or an array of at most 65536, each a number of at least 0",
        "weights of the classes in the loss; of several labels a sample, those of the label's presence; `balanced`: by "
        "how rare a class is in the training data; empty: none",
        [](const TomlValue& value) -> std::optional<ClassWeights> {
            constexpr std::size_t kMostClasses = 65536;
            constexpr Bounds kWeight{.low = 0};
            if (const auto* text = value.as<std::string>(); text != nullptr && *text == "balanced") {
                return ClassWeights{.balanced = true};
            }
            const auto* array = value.as<TomlArray>();
            if (array == nullptr || array->size() > kMostClasses) {
                return std::nullopt;
            }
            ClassWeights weights;
            for (const TomlValue& item : *array) {
                const std::optional<double> weight = kWeight.read(item);
                if (!weight) {
                    return std::nullopt;
                }
                weights.values.push_back(*weight);
            }
            return weights;
        },
        [](const ClassWeights& weights) {
            std::vector<std::string> texts;
            std::ranges::transform(weights.values, std::back_inserter(texts), toml_number);
            return weights.balanced ? std::string("\"balanced\"") : fmt::format("[{}]", fmt::join(texts, ", "));
        });
}

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
        one_of("data.decode_on", at(&DataRecipe::decode_on), {"auto", "cpu", "device"},
               "where dct records become pixels; `device`: on the GPU; `auto`: on the CPU, and on the GPU where the "
               "workers fall behind the steps"),
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
        text("data.bucket_by", at(&DataRecipe::bucket_by), "a field of any length", kAnyText,
             "a field of any length: a batch has samples of similar length, padded to the length of that batch")
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

std::vector<SchemaKey> model_keys() {
    const auto at = [](auto member) { return field(&Recipe::model, member); };
    return {
        model_name(),
        text("model.script", at(&ModelRecipe::script), "a TorchScript file", kAnyText,
             "your own model, saved by torch.jit.script or torch.jit.trace, instead of `name`"),
        text("model.export", at(&ModelRecipe::exported), "a .pt2 file", kAnyText,
             "your own model with its loss, written by export_training, instead of `name`"),
        integer_or_auto("model.classes", at(&ModelRecipe::classes), {1, kMost},
                        "outputs of the model; `auto`: the number of classes in the data"),
        integers("model.hidden", at(&ModelRecipe::hidden), {1, 1 << 20}, 64, "mlp: the widths of its hidden layers"),
        one_of("model.activation", at(&ModelRecipe::activation), {"relu", "gelu", "tanh"},
               "mlp: the activation function"),
        one_of("model.stem", at(&ModelRecipe::stem), {"auto", "imagenet", "cifar"},
               "resnets: `imagenet` is a 7x7 convolution of stride 2 with pooling, `cifar` a 3x3 convolution for small "
               "images; `auto`: `cifar` up to 64x64 pixels"),
        text("model.weights", at(&ModelRecipe::weights),
             "a .safetensors, .pt or .pth file, a checkpoint or a run folder", kAnyText,
             "initial weights, matched by name; the last layer is initialised anew if it is missing or the number of "
             "classes differs; empty: random, from `seed`"),
        texts("model.freeze", at(&ModelRecipe::freeze), 64,
              "parameters that are not trained: names, with `*` for any part"),
    };
}

SchemaKey lr_scales() {
    return array_key(
        "optimizer.lr_scales", field(&Recipe::optimizer, &OptimizerRecipe::lr_scales), 64,
        "an array of at most 64 texts such as \"layer1.*=0.1\": a pattern and a number above 0",
        "parameters whose learning rate is a factor of `lr`: names, with `*` for any part; the first pattern that "
        "matches counts",
        [](const TomlValue& item) -> std::optional<LrScale> {
            const auto* text = item.as<std::string>();
            const std::size_t equals = text != nullptr ? text->rfind('=') : std::string::npos;
            if (equals == std::string::npos || equals == 0) {
                return std::nullopt;
            }
            double factor = 0;
            const char* const end = text->data() + text->size();
            const auto [stop, error] = std::from_chars(text->data() + equals + 1, end, factor);
            return error == std::errc() && stop == end && factor > 0 && std::isfinite(factor)
                       ? std::optional(LrScale{text->substr(0, equals), factor})
                       : std::nullopt;
        },
        [](const LrScale& scale) { return toml_string(scale.pattern + "=" + toml_number(scale.factor)); });
}

std::vector<SchemaKey> optimizer_keys() {
    const auto at = [](auto member) { return field(&Recipe::optimizer, member); };
    return {
        one_of("optimizer.name", at(&OptimizerRecipe::name), {"sgd", "adam", "adamw"}, "the optimiser"),
        number("optimizer.lr", at(&OptimizerRecipe::lr), {.low = 0, .low_allowed = false},
               "learning rate; for `one_cycle` the maximum"),
        number("optimizer.momentum", at(&OptimizerRecipe::momentum), {.low = 0, .high = 1}, "sgd: momentum"),
        flag("optimizer.nesterov", at(&OptimizerRecipe::nesterov), "sgd: Nesterov momentum; needs a momentum"),
        number("optimizer.beta1", at(&OptimizerRecipe::beta1), {.low = 0, .high = 1},
               "adam, adamw: decay of the mean of gradients"),
        number("optimizer.beta2", at(&OptimizerRecipe::beta2), {.low = 0, .high = 1},
               "adam, adamw: decay of the mean of squared gradients"),
        number("optimizer.eps", at(&OptimizerRecipe::eps), {.low = 0}, "adam, adamw: added to the denominator"),
        number("optimizer.weight_decay", at(&OptimizerRecipe::weight_decay), {.low = 0},
               "adamw: decoupled from the gradient; sgd, adam: added to it (L2)"),
        texts("optimizer.no_decay", at(&OptimizerRecipe::no_decay), 64,
              "parameters without weight decay: names, with `*` for any part, or `norms_and_biases`"),
        lr_scales(),
    };
}

std::vector<SchemaKey> schedule_keys() {
    const auto at = [](auto member) { return field(&Recipe::schedule, member); };
    return {
        one_of("schedule.name", at(&ScheduleRecipe::name),
               {"constant", "linear", "cosine", "step", "multi_step", "plateau", "one_cycle"},
               "learning-rate schedule"),
        interval("schedule.warmup", at(&ScheduleRecipe::warmup), 0,
                 "length of the linear warm-up to `lr` before the schedule starts; `one_cycle` has its own warm-up"),
        number("schedule.warmup_factor", at(&ScheduleRecipe::warmup_factor),
               {.low = 0, .high = 1, .low_allowed = false}, "the share of `lr` at which warm-up starts"),
        number("schedule.end_factor", at(&ScheduleRecipe::end_factor), {.low = 0},
               "linear, cosine: the share of `lr` at the end"),
        number("schedule.gamma", at(&ScheduleRecipe::gamma), {.low = 0, .low_allowed = false},
               "step, multi_step, plateau: the factor of each change of the rate"),
        integer("schedule.step_size", at(&ScheduleRecipe::step_size), {1, kMost}, "step: epochs between changes"),
        integers("schedule.milestones", at(&ScheduleRecipe::milestones), {1, kMost}, 64,
                 "multi_step: epochs after which the rate changes"),
        integer("schedule.patience", at(&ScheduleRecipe::patience), {0, kMost},
                "plateau: evaluations without a better validation loss that are tolerated"),
        number("schedule.threshold", at(&ScheduleRecipe::threshold), {.low = 0, .high = 1},
               "plateau: the relative improvement from which a loss counts as better"),
        number("schedule.pct_start", at(&ScheduleRecipe::pct_start), {.low = 0, .high = 1, .low_allowed = false},
               "one_cycle: the share of the steps in which the rate rises"),
        number("schedule.div_factor", at(&ScheduleRecipe::div_factor), {.low = 0, .low_allowed = false},
               "one_cycle: the first rate is `lr / div_factor`"),
        number("schedule.final_div_factor", at(&ScheduleRecipe::final_div_factor), {.low = 0, .low_allowed = false},
               "one_cycle: the last rate is the first `/ final_div_factor`"),
    };
}

std::vector<SchemaKey> train_keys() {
    const auto at = [](auto member) { return field(&Recipe::train, member); };
    return {
        integer("train.epochs", at(&TrainRecipe::epochs), {1, kMost}, "passes over the training data"),
        one_of("train.precision", at(&TrainRecipe::precision), {"auto", "fp32", "tf32", "bf16", "fp16"},
               "arithmetic of the step: `bf16` and `fp16` under autocast, `fp16` with loss scaling, `tf32` in a GPU's "
               "matrix products; `auto` chooses for the device"),
        integer(
            "train.accumulate", at(&TrainRecipe::accumulate), {1, kMost},
            "splits a batch into this many micro-batches and adds up their gradients: less memory, the same update"),
        number("train.clip_norm", at(&TrainRecipe::clip_norm), {.low = 0},
               "limits the norm of all gradients together; 0: no limit"),
        number("train.clip_value", at(&TrainRecipe::clip_value), {.low = 0},
               "limits the magnitude of each gradient element; 0: no limit"),
        one_of("train.loss", at(&TrainRecipe::loss), {"mse", "l1", "huber"}, "regression: the loss"),
        number("train.label_smoothing", at(&TrainRecipe::label_smoothing), {.low = 0, .high = 1},
               "share of a label that is spread over all classes"),
        class_weights(),
        number("train.focal_gamma", at(&TrainRecipe::focal_gamma), {.low = 0},
               "focal loss: the loss of a sample times (1 - p)^gamma, p the probability of its class; 0: off"),
        ignore_index(),
        flag("train.gradient_checkpointing", at(&TrainRecipe::gradient_checkpointing),
             "recomputes the activations of each block in the backward pass instead of keeping them: less memory, more "
             "time"),
        flag("train.sync_batch_norm", at(&TrainRecipe::sync_batch_norm),
             "several processes: batch norm uses the statistics of the whole batch, not of each process' part of it"),
        one_of("train.compress_gradients", at(&TrainRecipe::compress_gradients), {"none", "bf16", "fp16"},
               "several processes: the type in which gradients are sent and added up; `bf16` and `fp16` halve the "
               "traffic"),
        one_of("train.shard", at(&TrainRecipe::shard), {"none", "optimizer", "full"},
               "several processes: what they divide among them instead of holding it all; `optimizer`: the optimiser's "
               "state (ZeRO stage 1); `full`: parameters, gradients and that state (ZeRO stage 3, FSDP)"),
        one_of(
            "train.pipeline", at(&TrainRecipe::pipeline), {"1f1b", "gpipe"},
            "several processes: the order of the micro-batches on the stages of a model (`mesh.pp`); `1f1b` goes back "
            "as soon as it can and holds the activations of few of them, `gpipe` goes back after all"),
        number(
            "train.mixup", at(&TrainRecipe::mixup), {.low = 0},
            "mixes pairs of images and their labels, with a ratio from Beta(mixup, mixup), from 1e-6 to 1e6; 0: off"),
        number("train.cutmix", at(&TrainRecipe::cutmix), {.low = 0},
               "pastes a box of another image into each image and mixes their labels, with a ratio from Beta(cutmix, "
               "cutmix), from 1e-6 to 1e6; 0: off"),
        number("train.loss_scale", at(&TrainRecipe::loss_scale), {.low = 0, .low_allowed = false},
               "fp16: the initial loss scale"),
        integer("train.loss_scale_interval", at(&TrainRecipe::loss_scale_interval), {1, kMost},
                "fp16: steps without an overflow before the scale doubles"),
        one_of("train.compile", at(&TrainRecipe::compile), {"auto", "none"},
               "`auto`: forward, backward and update as one unit (a CUDA graph, or fused kernels for an mlp) where "
               "possible; `none`: operation by operation"),
        flag("train.stop_at_nan", at(&TrainRecipe::stop_at_nan),
             "stops the run at a loss that is not finite and names the step's samples"),
        number("train.ema", at(&TrainRecipe::ema), {.low = 0, .high = 1},
               "decay of an exponential moving average of the weights, which evaluation uses; 0: off"),
        flag("train.channels_last", at(&TrainRecipe::channels_last),
             "memory layout (N, H, W, C) for convolutional models"),
        integer_or_auto("train.threads", at(&TrainRecipe::threads), {1, 1024}, "LibTorch's intra-op threads"),
        flag("train.data_parallel", at(&TrainRecipe::data_parallel),
             "for comparison: one process with a copy of the model on each GPU, as `torch.nn.DataParallel`; a process "
             "for each GPU (`stoker launch`) is faster"),
        flag("train.deterministic", at(&TrainRecipe::deterministic),
             "bit-identical losses on the same machine, versions and threads"),
        integer("train.evaluate_every", at(&TrainRecipe::evaluate_every), {1, kMost},
                "epochs from one evaluation on `data.val` to the next; the last epoch is always evaluated"),
        interval("train.checkpoint_every", at(&TrainRecipe::checkpoint_every), 1, "how often a checkpoint is written"),
        text(
            "train.keep_best", at(&TrainRecipe::keep_best), "\"val_loss\", or \"val_\" and a metric of the task",
            [](std::string_view) { return true; },
            "keeps the checkpoint of the epoch that is best by this, such as `val_accuracy`, as RUN/best; empty: off"),
        integer("train.early_stop", at(&TrainRecipe::early_stop), {0, kMost},
                "ends the run after this many evaluations without a better `keep_best`, or validation loss; 0: off"),
    };
}

std::vector<SchemaKey> mesh_keys() {
    const auto at = [](auto member) {
        return [member](auto& recipe) -> auto& {
            return recipe.train.mesh.*member;
        };
    };
    constexpr std::int64_t kMostRanks = 65536;
    return {
        integer_or_auto("train.mesh.dp", at(&MeshRecipe::dp), {1, kMostRanks},
                        "several processes: copies of the model, which share each batch (data parallelism); `auto`: "
                        "the number of processes by `pp` and `tp`"),
        integer(
            "train.mesh.pp", at(&MeshRecipe::pp), {1, kMostRanks},
            "several processes: into how many stages a copy of the model is divided, each on other processes (pipeline "
            "parallelism)"),
        integer("train.mesh.tp", at(&MeshRecipe::tp), {1, kMostRanks},
                "several processes: how many share one copy, or one stage, of an mlp or a vit_s_16, each with a part "
                "of its layers (tensor parallelism)"),
    };
}

}  // namespace

SchemaKey SchemaKey::in_python(PythonArgument argument) const {
    SchemaKey key = *this;
    argument.name = argument.name.empty() ? leaf() : argument.name;
    argument.about = argument.about.empty() ? about : argument.about;
    key.python = std::move(argument);
    return key;
}

std::string_view SchemaKey::table() const {
    const std::size_t dot = name.rfind('.');
    return dot == std::string::npos ? std::string_view{} : std::string_view(name).substr(0, dot);
}

std::string_view SchemaKey::leaf() const {
    const std::size_t dot = name.rfind('.');
    return dot == std::string::npos ? std::string_view(name) : std::string_view(name).substr(dot + 1);
}

const std::vector<SchemaKey>& recipe_schema() {
    static const std::vector<SchemaKey> schema = [] {
        std::vector<SchemaKey> all;
        for (auto keys :
             {root_keys(), data_keys(), model_keys(), optimizer_keys(), schedule_keys(), train_keys(), mesh_keys()}) {
            std::ranges::move(keys, std::back_inserter(all));
        }
        return all;
    }();
    return schema;
}

const SchemaKey* find_schema_key(std::string_view name) {
    const auto found = std::ranges::find(recipe_schema(), name, &SchemaKey::name);
    return found == recipe_schema().end() ? nullptr : &*found;
}

}  // namespace stoker

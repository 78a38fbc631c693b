// One line for each key of a recipe, and the few rules that concern two keys at once.
#include "stoker/recipe/schema.h"

#include <algorithm>

#include "stoker/base/pluralize.h"
#include "stoker/recipe/schema_keys.h"

namespace stoker {
namespace {

using namespace schema;

constexpr std::int64_t kMost = std::int64_t{1} << 30;
constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

// A share without its sign, most probably.
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
    const std::string allowed = "bytes of at least 0, or text such as \"4GiB\" (KiB MiB GiB TiB, KB MB GB TB)";
    return {.name = "data.cache_bytes",
            .allowed = allowed,
            .about = "the most that the cache may take",
            .read =
                [=](Recipe& recipe, const TomlValue& value, const Place& place) {
                    const auto* text = value.as<std::string>();
                    const auto* count = value.as<std::int64_t>();
                    const auto bytes = text != nullptr    ? parse_byte_size(*text)
                                       : count != nullptr ? std::optional(*count)
                                                          : std::nullopt;
                    if (!bytes || *bytes < 0) {
                        refuse(place, allowed, value);
                    }
                    recipe.data.cache_bytes = *bytes;
                },
            .write = [](const Recipe& recipe) { return toml_string(byte_size_text(recipe.data.cache_bytes)); }};
}

SchemaKey bad_samples() {
    const std::string allowed = "a number of samples of at least 0, or a share from 0% to 100% such as \"0.1%\"";
    return {.name = "data.bad_samples",
            .allowed = allowed,
            .about =
                "samples that may be bad in an epoch, over all ranks: each is replaced by the next good one and "
                "listed in the run's quarantine.jsonl; one more, and the run stops",
            .read =
                [=](Recipe& recipe, const TomlValue& value, const Place& place) {
                    const auto* text = value.as<std::string>();
                    const auto* count = value.as<std::int64_t>();
                    const auto bad = text != nullptr                   ? parse_bad_samples(*text)
                                     : count != nullptr && *count >= 0 ? std::optional(BadSamples{.count = *count})
                                                                       : std::nullopt;
                    if (!bad) {
                        refuse(place, allowed, value);
                    }
                    recipe.data.bad_samples = *bad;
                },
            .write = [](const Recipe& recipe) { return bad_samples_toml(recipe.data.bad_samples); }};
}

template <typename Field>
SchemaKey interval(std::string name, Field at, std::int64_t least, std::string about) {
    const std::string allowed =
        fmt::format("text such as \"{}\", \"2 epochs\" or \"200 steps\"", pluralize(least, "epoch"));
    return {.name = std::move(name),
            .allowed = allowed,
            .about = std::move(about),
            .text = true,
            .read =
                [=](Recipe& recipe, const TomlValue& value, const Place& place) {
                    const auto* text = value.as<std::string>();
                    const auto given = text != nullptr ? parse_interval(*text, least) : std::nullopt;
                    if (!given) {
                        refuse(place, allowed, value);
                    }
                    at(recipe) = *given;
                },
            .write = [=](const Recipe& recipe) { return toml_string(interval_text(at(recipe))); }};
}

SchemaKey seed() {
    SchemaKey key = integer("seed", field(&Recipe::seed), {0, kAny},
                            "decides the sample order, every augmentation and the initial weights");
    key.write = [](const Recipe& recipe) {
        if (recipe.seed > static_cast<std::uint64_t>(kAny)) {
            throw InvalidArgument(
                {"seed", fmt::format("at most {}, TOML's largest integer", kAny), fmt::format("{}", recipe.seed)});
        }
        return fmt::format("{}", recipe.seed);
    };
    return key;
}

std::vector<SchemaKey> root_keys() {
    return {
        seed(),
        text("device", field(&Recipe::device), "\"auto\", \"cpu\", \"cuda\" or \"cuda:N\"", is_device,
             "where the model runs; `auto` is the GPU where there is one"),
    };
}

std::vector<SchemaKey> data_keys() {
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
            "the data set to train on"),
        text(
            "data.val", at(&DataRecipe::val), "a data set, or a share above 0% and below 100% such as \"10%\"",
            [](std::string_view given) {
                return !(looks_like_share(given) || is_plain_number(given)) || parse_share(given);
            },
            "the data set to evaluate on, or the share of `train` held back for it; empty: the test split of "
            "`train` where it has one, else no evaluation"),
        integer("data.batch_size", at(&DataRecipe::batch_size), {1, kMost},
                "samples per optimiser step, over all ranks"),
        integer_or_auto("data.workers", at(&DataRecipe::workers), {0, 1024},
                        "threads that read, decode and augment; 0: the training thread does it itself"),
        integer("data.prefetch", at(&DataRecipe::prefetch), {1, 1024}, "batches in flight beyond the one in use"),
        flag("data.pin_memory", at(&DataRecipe::pin_memory),
             "page-locked batch memory where a GPU trains; false: plain memory"),
        texts("data.mix", at(&DataRecipe::mix), 256,
              "further data sets to train on, of the same classes as `train`; their samples follow those of `train`"),
        numbers("data.weights", at(&DataRecipe::weights), {.low = 0, .low_allowed = false}, 257,
                "shares of `train` and of each data set in `mix` in what is drawn; empty: as large as they are"),
        flag("data.balance", at(&DataRecipe::balance), "draws each class as often as any other"),
        integer("data.epoch_samples", at(&DataRecipe::epoch_samples), {0, kAny},
                "samples that make an epoch; 0: as many as there are. Passes over the data go on from epoch to epoch"),
        bad_samples(),
        one_of("data.cache", at(&DataRecipe::cache), {"none", "ram", "disk"},
               "keeps samples once they were read, in memory or on a local disk; of remote data `disk` keeps the bytes "
               "that were fetched, for later runs too"),
        cache_bytes(),
        text("data.cache_dir", at(&DataRecipe::cache_dir), "a folder", any,
             "where `cache = \"disk\"` keeps them; empty: the user's cache folder"),
        one_of("data.cache_as", at(&DataRecipe::cache_as), {"decoded", "encoded"},
               "`decoded`: as pixels, all ops up to the first random one done; `encoded`: as stored, which is smaller"),
        flag("data.shuffle", at(&DataRecipe::shuffle), "a new order every epoch, from `seed` alone"),
        integer_or_auto("data.shuffle_window", at(&DataRecipe::shuffle_window), {0, kAny},
                        "shuffles only within so many samples of a sequence of shuffled shards, for data that is best "
                        "read in order; 0: over everything. `auto`: 0, and for remote data as many as 128 MiB hold"),
        flag("data.drop_last", at(&DataRecipe::drop_last), "leave out an epoch's last batch where it is not full"),
        flag("data.exif", at(&DataRecipe::exif), "turn images as their EXIF orientation says"),
        one_of("data.decode", at(&DataRecipe::decode), {"exact", "fast"},
               "`fast`: an image that is shrunk anyway may be decoded at 1/2, 1/4 or 1/8 of its size"),
        ops("data.train_ops", at(&DataRecipe::train_ops), "what happens to a training image, in this order"),
        ops("data.val_ops", at(&DataRecipe::val_ops), "what happens to an image in evaluation"),
        text("data.fields.image", fields_at(&FieldsRecipe::image), "a name", any,
             "the field that holds the images; empty: `images`, `image`, `x` or `data`"),
        text("data.fields.label", fields_at(&FieldsRecipe::label), "a name", any,
             "the field that holds the labels; empty: `labels`, `label`, `y` or `targets`"),
    };
    keys.front().required = true;
    return keys;
}

std::vector<SchemaKey> model_keys() {
    const auto at = [](auto member) { return field(&Recipe::model, member); };
    const auto any = [](std::string_view) { return true; };
    return {
        one_of("model.name", at(&ModelRecipe::name), {"mlp", "convnet", "resnet18", "resnet34", "resnet50", "vit_s_16"},
               "the model"),
        text("model.script", at(&ModelRecipe::script), "a TorchScript file", any,
             "a model of your own that torch.jit.script or torch.jit.trace wrote, instead of `name`"),
        text("model.export", at(&ModelRecipe::exported), "a .pt2 file", any,
             "a model of your own with its loss, which export_training wrote, instead of `name`"),
        integer_or_auto("model.classes", at(&ModelRecipe::classes), {1, kMost},
                        "outputs of the model; `auto`: as many as the data has classes"),
        integers("model.hidden", at(&ModelRecipe::hidden), {1, 1 << 20}, 64, "mlp: the widths of its hidden layers"),
        one_of("model.activation", at(&ModelRecipe::activation), {"relu", "gelu", "tanh"},
               "mlp: the function between its layers"),
        one_of("model.stem", at(&ModelRecipe::stem), {"auto", "imagenet", "cifar"},
               "resnets: a 7x7 convolution of stride 2 with pooling, or a 3x3 one for small images; `auto`: the "
               "small one up to 64x64 pixels"),
        text(
            "model.weights", at(&ModelRecipe::weights), "a .safetensors file, a checkpoint or a run folder", any,
            "where training begins: weights by name; the last layer begins afresh where the number of classes differs; "
            "empty: by `seed`"),
        texts("model.freeze", at(&ModelRecipe::freeze), 64,
              "parameters that stay as they are: names, with `*` for any part"),
    };
}

std::vector<SchemaKey> optimizer_keys() {
    const auto at = [](auto member) { return field(&Recipe::optimizer, member); };
    return {
        one_of("optimizer.name", at(&OptimizerRecipe::name), {"sgd", "adam", "adamw"}, "the optimiser"),
        number("optimizer.lr", at(&OptimizerRecipe::lr), {.low = 0, .low_allowed = false},
               "learning rate; under `one_cycle` its peak"),
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
    };
}

std::vector<SchemaKey> schedule_keys() {
    const auto at = [](auto member) { return field(&Recipe::schedule, member); };
    return {
        one_of("schedule.name", at(&ScheduleRecipe::name),
               {"constant", "linear", "cosine", "step", "multi_step", "plateau", "one_cycle"},
               "how the learning rate moves over the run"),
        interval("schedule.warmup", at(&ScheduleRecipe::warmup), 0,
                 "how long the rate rises to `lr` before the schedule begins; `one_cycle` has a rise of its own"),
        number("schedule.warmup_factor", at(&ScheduleRecipe::warmup_factor),
               {.low = 0, .high = 1, .low_allowed = false}, "the share of `lr` that warm-up begins with"),
        number("schedule.end_factor", at(&ScheduleRecipe::end_factor), {.low = 0},
               "linear, cosine: the share of `lr` at the end"),
        number("schedule.gamma", at(&ScheduleRecipe::gamma), {.low = 0, .low_allowed = false},
               "step, multi_step, plateau: what the rate is multiplied by"),
        integer("schedule.step_size", at(&ScheduleRecipe::step_size), {1, kMost}, "step: epochs between changes"),
        integers("schedule.milestones", at(&ScheduleRecipe::milestones), {1, kMost}, 64,
                 "multi_step: epochs after which the rate changes"),
        integer("schedule.patience", at(&ScheduleRecipe::patience), {0, kMost},
                "plateau: epochs without a better validation loss that are let pass"),
        number("schedule.threshold", at(&ScheduleRecipe::threshold), {.low = 0, .high = 1},
               "plateau: the share by which a loss has to be better to count"),
        number("schedule.pct_start", at(&ScheduleRecipe::pct_start), {.low = 0, .high = 1, .low_allowed = false},
               "one_cycle: share of the steps spent rising"),
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
        integer("train.accumulate", at(&TrainRecipe::accumulate), {1, kMost},
                "splits a batch into that many micro-batches whose gradients are added up: less memory, the same "
                "learning"),
        number("train.clip_norm", at(&TrainRecipe::clip_norm), {.low = 0},
               "scales gradients down to this norm, of all together; 0: never"),
        number("train.clip_value", at(&TrainRecipe::clip_value), {.low = 0},
               "limits each number of a gradient to this magnitude; 0: none"),
        number("train.label_smoothing", at(&TrainRecipe::label_smoothing), {.low = 0, .high = 1},
               "share of a label that is spread over all classes"),
        flag("train.gradient_checkpointing", at(&TrainRecipe::gradient_checkpointing),
             "computes the activations of each block again in the backward pass instead of keeping them: less memory, "
             "more time"),
        number("train.mixup", at(&TrainRecipe::mixup), {.low = 0},
               "mixes each image with another, by shares from Beta(mixup, mixup), and the labels alike; 0: never"),
        number(
            "train.cutmix", at(&TrainRecipe::cutmix), {.low = 0},
            "gives each image a box of another, by shares from Beta(cutmix, cutmix), and the labels alike; 0: never"),
        number("train.loss_scale", at(&TrainRecipe::loss_scale), {.low = 0, .low_allowed = false},
               "fp16: what the loss is multiplied by at first"),
        integer("train.loss_scale_interval", at(&TrainRecipe::loss_scale_interval), {1, kMost},
                "fp16: steps without an overflow before the scale doubles"),
        one_of("train.compile", at(&TrainRecipe::compile), {"auto", "none"},
               "`auto`: forward, backward and update as one piece where that can be; `none`: one operation after the "
               "other"),
        flag("train.stop_at_nan", at(&TrainRecipe::stop_at_nan),
             "a loss that is not finite ends the run, naming the step's samples"),
        number("train.ema", at(&TrainRecipe::ema), {.low = 0, .high = 1},
               "decay of a running average of the weights, which is then what is evaluated; 0: none"),
        flag("train.channels_last", at(&TrainRecipe::channels_last),
             "memory layout (N, H, W, C) for convolutional models"),
        integer_or_auto("train.threads", at(&TrainRecipe::threads), {1, 1024}, "LibTorch's intra-op threads"),
        flag("train.deterministic", at(&TrainRecipe::deterministic),
             "the same losses bit for bit on the same machine, versions and threads"),
        interval("train.checkpoint_every", at(&TrainRecipe::checkpoint_every), 1, "how often a checkpoint is written"),
    };
}

}  // namespace

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
        for (auto keys : {root_keys(), data_keys(), model_keys(), optimizer_keys(), schedule_keys(), train_keys()}) {
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

namespace {

// The loss and its arithmetic are in an exported graph.
std::optional<SchemaConflict> find_export_conflict(const Recipe& recipe) {
    const TrainRecipe& train = recipe.train;
    if (train.label_smoothing > 0) {
        return SchemaConflict{.key = "train.label_smoothing",
                              .expected = "0 with model.export",
                              .got = fmt::to_string(train.label_smoothing),
                              .hint = "export the model with nn.CrossEntropyLoss(label_smoothing=...)"};
    }
    if (train.precision == "bf16" || train.precision == "fp16") {
        return SchemaConflict{.key = "train.precision",
                              .expected = "auto, fp32 or tf32 with model.export",
                              .got = train.precision,
                              .hint = "export a model and a loss that call torch.autocast"};
    }
    if (train.mixup > 0 || train.cutmix > 0) {
        return SchemaConflict{.key = train.mixup > 0 ? "train.mixup" : "train.cutmix",
                              .expected = "0 with model.export",
                              .got = fmt::to_string(std::max(train.mixup, train.cutmix)),
                              .hint = "its loss takes one class for each image"};
    }
    return std::nullopt;
}

}  // namespace

std::optional<SchemaConflict> find_conflict(const Recipe& recipe) {
    if (!recipe.model.script.empty() && !recipe.model.exported.empty()) {
        return SchemaConflict{.key = "model.export",
                              .expected = "model.script or model.export",
                              .got = "both",
                              .hint = "leave one of them out"};
    }
    if (!recipe.model.exported.empty()) {
        if (auto conflict = find_export_conflict(recipe)) {
            return conflict;
        }
    }
    const OptimizerRecipe& optimizer = recipe.optimizer;
    if (optimizer.nesterov && optimizer.name == "sgd" && optimizer.momentum <= 0) {
        return SchemaConflict{.key = "optimizer.nesterov",
                              .expected = "a momentum above 0 with Nesterov momentum",
                              .got = "momentum 0",
                              .hint = "set optimizer.momentum, 0.9 for example, or nesterov = false"};
    }
    const DataRecipe& data = recipe.data;
    if (!data.weights.empty() && data.weights.size() != data.mix.size() + 1) {
        return SchemaConflict{
            .key = "data.weights",
            .expected = fmt::format("{} weights: of train and of each data set in mix", data.mix.size() + 1),
            .got = fmt::to_string(data.weights.size()),
            .hint = ""};
    }
    if (!data.weights.empty() && data.balance) {
        return SchemaConflict{.key = "data.balance",
                              .expected = "weights of sources or balanced classes",
                              .got = "both",
                              .hint = "leave one of them out"};
    }
    if (data.balance && !data.shuffle) {
        return SchemaConflict{.key = "data.balance",
                              .expected = "shuffled data",
                              .got = "shuffle = false",
                              .hint = "in order, one class would come after the other"};
    }
    if (data.shuffle_window.value_or(0) > 0 && !data.shuffle) {
        return SchemaConflict{.key = "data.shuffle_window",
                              .expected = "shuffled data",
                              .got = "shuffle = false",
                              .hint = "leave one of them out"};
    }
    if (data.shuffle_window.value_or(0) > 0 && (!data.weights.empty() || data.balance || data.epoch_samples > 0)) {
        return SchemaConflict{.key = "data.shuffle_window",
                              .expected = "0 or auto with weights, balance or epoch_samples",
                              .got = fmt::to_string(*data.shuffle_window),
                              .hint = "they draw from everywhere"};
    }
    return std::nullopt;
}

}  // namespace stoker

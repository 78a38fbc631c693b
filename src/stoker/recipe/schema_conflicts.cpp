// The rules between the keys of a recipe.
#include <algorithm>
#include <fmt/format.h>
#include <string_view>
#include <utility>

#include "stoker/recipe/schema.h"

namespace stoker {
namespace {

// An exported graph contains the loss and its precision.
std::optional<SchemaConflict> find_export_conflict(const Recipe& recipe) {
    const TrainRecipe& train = recipe.train;
    if (train.label_smoothing > 0) {
        return SchemaConflict{"train.label_smoothing", "0 with model.export", fmt::to_string(train.label_smoothing),
                              "export the model with nn.CrossEntropyLoss(label_smoothing=...)"};
    }
    if (train.precision == "bf16" || train.precision == "fp16") {
        return SchemaConflict{"train.precision", "auto, fp32 or tf32 with model.export", train.precision,
                              "export a model and a loss that call torch.autocast"};
    }
    if (train.mixup > 0 || train.cutmix > 0) {
        return SchemaConflict{train.mixup > 0 ? "train.mixup" : "train.cutmix", "0 with model.export",
                              fmt::to_string(std::max(train.mixup, train.cutmix)),
                              "its loss takes one class per image"};
    }
    if (!train.class_weights.values.empty() || train.class_weights.balanced || train.focal_gamma > 0) {
        return SchemaConflict{train.focal_gamma > 0 ? "train.focal_gamma" : "train.class_weights",
                              "nothing with model.export", "a value", "export the model with such a loss"};
    }
    return std::nullopt;
}

// Keys of other tasks.
std::optional<SchemaConflict> find_task_conflict(const Recipe& recipe) {
    const TrainRecipe& train = recipe.train;
    const auto is = [&](std::string_view task) { return recipe.task == task; };
    const bool classes = is("classification") || is("segmentation") || is("language");
    const bool weighted = train.class_weights.balanced || !train.class_weights.values.empty();
    const auto conflict = [&](const char* key, const char* tasks, const std::string& got) {
        return SchemaConflict{key, tasks, fmt::format("{} in the task {}", got, recipe.task), "leave it out"};
    };
    if ((train.mixup > 0 || train.cutmix > 0) && !is("classification")) {
        return conflict(train.mixup > 0 ? "train.mixup" : "train.cutmix", "0, except for classification",
                        fmt::to_string(std::max(train.mixup, train.cutmix)));
    }
    if (train.label_smoothing > 0 && !classes) {
        return conflict("train.label_smoothing", "0, except for classification, segmentation and language",
                        fmt::to_string(train.label_smoothing));
    }
    if (train.focal_gamma > 0 && !classes && !is("multilabel")) {
        return conflict("train.focal_gamma", "0 for a loss without classes", fmt::to_string(train.focal_gamma));
    }
    if (weighted && !classes && !is("multilabel")) {
        return conflict("train.class_weights", "none for a loss without classes", "some");
    }
    if (train.class_weights.balanced && !is("classification")) {
        return conflict("train.class_weights", "one weight for each class, except for classification", "\"balanced\"");
    }
    if (train.loss != "mse" && !is("regression")) {
        return conflict("train.loss", "\"mse\", the default, except for regression", train.loss);
    }
    if (train.ignore_index && !is("segmentation") && !is("language")) {
        return conflict("train.ignore_index", "\"auto\", except for segmentation and language",
                        fmt::to_string(*train.ignore_index));
    }
    if (train.focal_gamma > 0 && (train.label_smoothing > 0 || train.mixup > 0 || train.cutmix > 0)) {
        return SchemaConflict{"train.focal_gamma", "0 with label_smoothing, mixup or cutmix",
                              fmt::to_string(train.focal_gamma), "leave one of them out"};
    }
    return std::nullopt;
}

// Beta(alpha, alpha) is drawn for these alone.
std::optional<SchemaConflict> find_mixing_conflict(const TrainRecipe& train) {
    for (const auto& [key, alpha] : {std::pair("train.mixup", train.mixup), std::pair("train.cutmix", train.cutmix)}) {
        if (alpha != 0 && !(alpha >= 1e-6 && alpha <= 1e6)) {
            return SchemaConflict{key, "0, or a number from 1e-6 to 1e6", fmt::to_string(alpha), ""};
        }
    }
    return std::nullopt;
}

// Settings for the clips that data.frames or data.seconds make.
std::optional<SchemaConflict> find_clip_conflict(const DataRecipe& data) {
    for (const auto& [key, value, clips] :
         {std::tuple("data.stride", data.stride, data.frames > 0),
          std::tuple("data.clips_per_video", data.clips_per_video, data.frames > 0 || data.seconds > 0)}) {
        if (value != 1 && !clips) {
            return SchemaConflict{key, "1 without data.frames or data.seconds", fmt::to_string(value),
                                  "set data.frames to the number of frames of a clip, or data.seconds of a sound"};
        }
    }
    if (data.sample_rate != 0 && data.frames != 0) {
        return SchemaConflict{"data.frames", "0 with data.sample_rate, which is of sounds", fmt::to_string(data.frames),
                              "leave one of them out"};
    }
    constexpr double kMost = 1 << 28;  // kMostSoundSamples
    if (data.seconds * static_cast<double>(data.sample_rate) > kMost) {
        return SchemaConflict{"data.seconds", fmt::format("at most {} samples of a sound", kMost),
                              fmt::to_string(data.seconds), "lower it or data.sample_rate"};
    }
    if (data.seconds != 0 && data.sample_rate == 0) {
        return SchemaConflict{"data.seconds", "0 without data.sample_rate", fmt::to_string(data.seconds),
                              "set data.sample_rate to the rate that sounds are resampled to, such as 16000"};
    }
    return std::nullopt;
}

// What orders samples in another way than by their lengths.
std::optional<SchemaConflict> find_bucket_conflict(const DataRecipe& data) {
    if (data.batch_tokens != 0 && data.bucket_by == "image") {
        return SchemaConflict{"data.batch_tokens", "data.batch_size with data.bucket_by = \"image\"",
                              fmt::to_string(data.batch_tokens), ""};
    }
    if (data.batch_tokens != 0 && data.bucket_by.empty()) {
        return SchemaConflict{"data.batch_tokens", "0 without data.bucket_by", fmt::to_string(data.batch_tokens),
                              "set data.bucket_by to the field of tokens"};
    }
    for (const auto& [key, given] :
         {std::pair("data.context", data.context != 0), std::pair("data.balance", data.balance),
          std::pair("data.weights", !data.weights.empty()), std::pair("data.epoch_samples", data.epoch_samples != 0),
          std::pair("data.shuffle_window", data.shuffle_window.value_or(0) != 0)}) {
        if (given && !data.bucket_by.empty()) {
            return SchemaConflict{key, "none with data.bucket_by", "both", "leave one of them out"};
        }
    }
    return std::nullopt;
}

// Settings that the device's decoder does not support, whatever the data set.
std::optional<SchemaConflict> find_decode_conflict(const DataRecipe& data) {
    const auto conflict = [](const char* key, const char* expected, const std::string& got) {
        return SchemaConflict{key, expected, got, "leave it out, or set data.decode_on = \"cpu\""};
    };
    if (data.decode_on != "device") {
        return std::nullopt;
    }
    if (data.decode == "fast") {
        return conflict("data.decode", "\"exact\" with data.decode_on = \"device\"", data.decode);
    }
    if (data.channels == 1) {
        return conflict("data.channels", "3 with data.decode_on = \"device\"", "1");
    }
    if (data.cache == "device") {
        return conflict("data.cache", "none, ram or disk with data.decode_on = \"device\"", data.cache);
    }
    return std::nullopt;
}

}  // namespace

std::optional<SchemaConflict> find_conflict(const Recipe& recipe) {
    if (!recipe.model.script.empty() && !recipe.model.exported.empty()) {
        return SchemaConflict{"model.export", "model.script or model.export", "both", "leave one of them out"};
    }
    if (!recipe.model.exported.empty()) {
        if (auto conflict = find_export_conflict(recipe)) {
            return conflict;
        }
    }
    if (auto conflict = find_task_conflict(recipe)) {
        return conflict;
    }
    if (auto conflict = find_mixing_conflict(recipe.train)) {
        return conflict;
    }
    if (auto conflict = find_bucket_conflict(recipe.data)) {
        return conflict;
    }
    if (!recipe.data.bucket_by.empty() && recipe.train.mesh.pp > 1) {
        return SchemaConflict{"data.bucket_by", "none with stages (train.mesh.pp), whose messages have one shape",
                              recipe.data.bucket_by, "leave one of them out"};
    }
    if (auto conflict = find_clip_conflict(recipe.data)) {
        return conflict;
    }
    const MeshRecipe& mesh = recipe.train.mesh;
    if (recipe.train.shard == "full" && mesh.copy() > 1) {
        return SchemaConflict{
            "train.shard", "none or optimizer where train.mesh divides the model (tp, pp)", "full",
            "divide it in one way: leave train.mesh.tp and pp out, or set train.shard = \"optimizer\""};
    }
    const OptimizerRecipe& optimizer = recipe.optimizer;
    if (optimizer.nesterov && optimizer.name == "sgd" && optimizer.momentum <= 0) {
        return SchemaConflict{"optimizer.nesterov", "a momentum above 0 with Nesterov momentum", "momentum 0",
                              "set optimizer.momentum, 0.9 for example, or nesterov = false"};
    }
    const DataRecipe& data = recipe.data;
    if (auto conflict = find_decode_conflict(data)) {
        return conflict;
    }
    if (!data.weights.empty() && data.weights.size() != data.mix.size() + 1) {
        return SchemaConflict{
            "data.weights",
            fmt::format("{} weights: one for train and one for each data set in mix", data.mix.size() + 1),
            fmt::to_string(data.weights.size()), ""};
    }
    if (!data.weights.empty() && data.balance) {
        return SchemaConflict{"data.balance", "data.weights or data.balance", "both", "leave one of them out"};
    }
    if (data.balance && !data.shuffle) {
        return SchemaConflict{"data.balance", "shuffled data", "shuffle = false",
                              "balanced classes cannot be drawn in order"};
    }
    if (data.shuffle_window.value_or(0) > 0 && !data.shuffle) {
        return SchemaConflict{"data.shuffle_window", "shuffled data", "shuffle = false", "leave one of them out"};
    }
    if (data.shuffle_window.value_or(0) > 0 && (!data.weights.empty() || data.balance || data.epoch_samples > 0)) {
        return SchemaConflict{"data.shuffle_window", "0 or auto with weights, balance or epoch_samples",
                              fmt::to_string(*data.shuffle_window), "they draw from the whole data set"};
    }
    return std::nullopt;
}

}  // namespace stoker

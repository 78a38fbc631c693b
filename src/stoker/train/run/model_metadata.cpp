// Numbers are written as the shortest decimals that read back as the same float.
#include "stoker/train/run/model_metadata.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <variant>
#include <vector>

#include "stoker/base/json_depth.h"
#include "stoker/pipeline/transforms/op_table.h"

namespace stoker {

using Json = nlohmann::ordered_json;

namespace {

Json value_of(const ModelMetadata& metadata, const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? Json() : parse_json<Json>(found->second);
}

void add_sound_op(const SoundOp& op, ModelMetadata& metadata) {
    if (const auto* mel = std::get_if<MelOp>(&op)) {
        const MelOptions& all = mel->options;
        metadata["mel_spectrogram"] = json_text(Json{{"n_fft", all.n_fft},
                                                     {"win_length", all.win_length},
                                                     {"hop_length", all.hop_length},
                                                     {"n_mels", all.n_mels},
                                                     {"f_min", all.f_min},
                                                     {"f_max", all.f_max},
                                                     {"power", all.power},
                                                     {"mel_scale", all.slaney_scale ? "slaney" : "htk"},
                                                     {"norm", all.slaney_norm ? "slaney" : "none"}});
    } else if (const auto* decibels = std::get_if<AmplitudeToDb>(&op)) {
        metadata["amplitude_to_db"] =
            json_text(Json{{"multiplier", decibels->multiplier}, {"top_db", decibels->top_db}});
    }
}

void add_normalization(const Recipe& recipe, std::int64_t channels_of_images, ModelMetadata& metadata) {
    Normalize normalize;
    for (const Op& op : make_ops(recipe.data.val_ops)) {
        if (const auto* found = std::get_if<Normalize>(&op)) {
            normalize = *found;
        } else if (const auto* values = std::get_if<ToFloat>(&op); values != nullptr && values->window) {
            metadata["window"] = fmt::format("[{}]", fmt::join(*values->window, ", "));
        } else if (values != nullptr && !values->scale) {
            metadata["scaled"] = "false";
        } else if (const auto* sound = std::get_if<SoundOp>(&op)) {
            add_sound_op(*sound, metadata);
        }
    }
    if (normalize.by != NormalizeBy::mean_std) {  // each image has its own
        metadata["normalize_range"] = fmt::format("[{}]", fmt::join(normalize.percentiles, ", "));
        return;
    }
    const auto channels = std::span(normalize.mean).first(static_cast<std::size_t>(channels_of_images));
    const auto scales = std::span(normalize.std).first(channels.size());
    metadata["mean"] = fmt::format("[{}]", fmt::join(channels, ", "));
    metadata["std"] = fmt::format("[{}]", fmt::join(scales, ", "));
}

}  // namespace

ModelMetadata model_metadata(const Recipe& recipe, const Task& task, const Shape& input) {
    ModelMetadata metadata = {{"format", "pt"},  // Python's safetensors requires it
                              {"classes", json_text(Json(task.classes))},
                              {"input", fmt::format("[{}]", fmt::join(input, ", "))}};
    if (recipe.data.sample_rate > 0) {
        metadata["sample_rate"] = fmt::to_string(recipe.data.sample_rate);
    }
    if (input.size() >= 3) {  // images or clips
        add_normalization(recipe, channels_in(input), metadata);
    }
    if (!task.classifies()) {
        metadata["task"] = json_text(Json(task_name(task.kind)));
        metadata["target"] = json_text(Json(task.fields.target));
        metadata["outputs"] = fmt::to_string(task.outputs);
    }
    if (!task.inputs.empty()) {
        metadata["inputs"] = json_text(Json(task.inputs));
    }
    return metadata;
}

std::string to_json(const ModelMetadata& metadata) {
    Json object = Json::object();
    for (const auto& [key, value] : metadata) {
        Json parsed = parse_json<Json>(value);
        if (!parsed.is_discarded()) {  // the value of "format" is not JSON
            object[key] = std::move(parsed);
        }
    }
    return json_text(object, 2);
}

Shape input_of(const ModelMetadata& metadata) {
    const Json shape = value_of(metadata, "input");
    const bool valid = shape.is_array() && (shape.size() == 4 || shape.size() == 3 || shape.size() == 1) &&
                       std::ranges::all_of(shape, [](const Json& side) { return side.is_number_unsigned(); });
    return valid ? shape.get<Shape>() : Shape();
}

std::int64_t channels_of(const ModelMetadata& metadata) {
    const Shape input = input_of(metadata);
    return channels_in(input);
}

std::int64_t outputs_of(const ModelMetadata& metadata) {
    const Json outputs = value_of(metadata, "outputs");
    return outputs.is_number_unsigned() ? outputs.get<std::int64_t>() : 0;
}

std::string target_of(const ModelMetadata& metadata) {
    const Json target = value_of(metadata, "target");
    return target.is_string() ? target.get<std::string>() : "";
}

std::vector<std::string> inputs_of(const ModelMetadata& metadata) {
    std::vector<std::string> names;
    for (const Json& name : value_of(metadata, "inputs")) {
        if (name.is_string()) {
            names.push_back(name.get<std::string>());
        }
    }
    return names;
}

}  // namespace stoker

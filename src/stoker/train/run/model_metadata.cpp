// Numbers are written as the shortest decimals that read back as the same float.
#include "stoker/train/run/model_metadata.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <variant>
#include <vector>

#include "stoker/pipeline/transforms/op_table.h"

namespace stoker {

using Json = nlohmann::ordered_json;

ModelMetadata model_metadata(const Recipe& recipe, const Shape& input, std::span<const std::string> classes) {
    Normalize normalize;
    for (const Op& op : make_ops(recipe.data.val_ops)) {
        if (const auto* found = std::get_if<Normalize>(&op)) {
            normalize = *found;
        }
    }
    const auto channels = std::span(normalize.mean).first(static_cast<std::size_t>(input.front()));
    const auto scales = std::span(normalize.std).first(channels.size());
    const Json names = std::vector<std::string>(classes.begin(), classes.end());
    return {{"format", "pt"},  // Python's safetensors requires it
            {"classes", names.dump(-1, ' ', false, Json::error_handler_t::replace)},
            {"input", fmt::format("[{}]", fmt::join(input, ", "))},
            {"mean", fmt::format("[{}]", fmt::join(channels, ", "))},
            {"std", fmt::format("[{}]", fmt::join(scales, ", "))}};
}

std::string to_json(const ModelMetadata& metadata) {
    Json object = Json::object();
    for (const auto& [key, value] : metadata) {
        Json parsed = Json::parse(value, nullptr, /*allow_exceptions=*/false);
        if (!parsed.is_discarded()) {  // the value of "format" is not JSON
            object[key] = std::move(parsed);
        }
    }
    return object.dump(2);
}

Shape input_of(const ModelMetadata& metadata) {
    const auto input = metadata.find("input");
    const Json shape =
        input == metadata.end() ? Json() : Json::parse(input->second, nullptr, /*allow_exceptions=*/false);
    const bool valid = shape.is_array() && shape.size() == 3 &&
                       std::ranges::all_of(shape, [](const Json& side) { return side.is_number_unsigned(); });
    return valid ? shape.get<Shape>() : Shape();
}

std::int64_t channels_of(const ModelMetadata& metadata) {
    const Shape input = input_of(metadata);
    return input.empty() ? 0 : input.front();
}

}  // namespace stoker

// Counts brackets outside of strings. A parser that stops earlier has entered no more levels than were counted.
#include "stoker/base/json_depth.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "stoker/base/memory_limit.h"

namespace stoker {

int json_depth(std::string_view text) {
    int depth = 0;
    int deepest = 0;
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quoted && c == '\\') {
            ++i;  // an escaped character does not end the string
        } else if (c == '"') {
            quoted = !quoted;
        } else if (!quoted && (c == '[' || c == '{')) {
            deepest = std::max(deepest, ++depth);
        } else if (!quoted && (c == ']' || c == '}')) {
            --depth;
        }
    }
    return deepest;
}

void require_json_memory(std::size_t bytes) {
    constexpr std::size_t kAlwaysParsed = std::size_t{1} << 20;
    if (bytes > kAlwaysParsed) {
        require_memory(kParsedJsonRatio * bytes, "");
    }
}

template <typename Json>
Json parse_json(std::string_view text) {
    if (json_depth(text) > kMaxJsonDepth) {
        return Json(Json::value_t::discarded);
    }
    require_json_memory(text.size());
    return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

template <typename Json>
Json parse_own_json(std::string_view text) {
    return Json::parse(text);
}

template <typename Json>
std::string json_text(const Json& value, int indent) {
    return value.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

template nlohmann::json parse_json(std::string_view);
template nlohmann::ordered_json parse_json(std::string_view);
template nlohmann::json parse_own_json(std::string_view);
template nlohmann::ordered_json parse_own_json(std::string_view);
template std::string json_text(const nlohmann::json&, int);
template std::string json_text(const nlohmann::ordered_json&, int);

}  // namespace stoker

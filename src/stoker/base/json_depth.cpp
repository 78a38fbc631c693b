// Counts brackets outside of strings. A parser that stops earlier has entered no more levels than were counted.
#include "stoker/base/json_depth.h"

#include <algorithm>
#include <array>
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

namespace {

// With null for NaN, Infinity and -Infinity outside of strings; empty if it has none of them.
std::string without_non_finite(std::string_view text) {
    constexpr std::array<std::string_view, 3> kWords = {"NaN", "Infinity", "-Infinity"};
    std::string out;
    std::size_t copied = 0;
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quoted && c == '\\') {
            ++i;
        } else if (c == '"') {
            quoted = !quoted;
        } else if (!quoted && (c == 'N' || c == 'I' || c == '-')) {
            const auto* const word =
                std::ranges::find_if(kWords, [&](std::string_view each) { return text.substr(i).starts_with(each); });
            if (word != kWords.end()) {
                out.append(text.substr(copied, i - copied)).append("null");
                i += word->size() - 1;
                copied = i + 1;
            }
        }
    }
    return copied == 0 ? std::string() : out.append(text.substr(copied));
}

}  // namespace

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
    Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (value.is_discarded()) {
        if (const std::string finite = without_non_finite(text); !finite.empty()) {
            value = Json::parse(finite, nullptr, /*allow_exceptions=*/false);
        }
    }
    return value;
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

// JSON as text, also from outside. nlohmann::json copies, compares and writes values by recursion, once for each level,
// so a text with too many levels is refused before it is parsed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stoker {

inline constexpr int kMaxJsonDepth = 64;
inline constexpr std::uint64_t kParsedJsonRatio = 40;  // the most memory of parsed JSON for a byte of its text

// The levels of arrays and objects within each other. For text that is not JSON, at least as many as a parser enters
// before it stops.
int json_depth(std::string_view text);

// Throws MemoryError for a text that is too long to be parsed in memory. Below 1 MiB nothing is checked.
void require_json_memory(std::size_t bytes);

// These are compiled for nlohmann::json and ordered_json in json_depth.cpp, since each file that has the library's
// parser or writer takes three seconds more.

// The value of a text; discarded (is_discarded()) for text that is not JSON or has more than kMaxJsonDepth levels. NaN,
// Infinity and -Infinity, which Python's json writes, are null. Throws as require_json_memory.
template <typename Json>
Json parse_json(std::string_view text);

// The value of a text that Stoker wrote. Throws nlohmann::json::parse_error.
template <typename Json>
Json parse_own_json(std::string_view text);

// On one line, or with `indent` blanks for each level. Bytes that are not UTF-8 are replaced.
template <typename Json>
std::string json_text(const Json& value, int indent = -1);

}  // namespace stoker

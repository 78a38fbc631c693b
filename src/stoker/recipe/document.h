// TOML text as plain values, each with its line. Only document.cpp includes toml++.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "stoker/base/error.h"

namespace stoker {

struct TomlValue;
struct TomlMember;
using TomlArray = std::vector<TomlValue>;
using TomlTable = std::vector<TomlMember>;  // in the order of the text

struct TomlValue {
    // Empty: a date or a time, which no key takes.
    std::variant<std::monostate, bool, std::int64_t, double, std::string, TomlArray, TomlTable> data;
    int line = 0;  // from 1

    template <typename T>
    const T* as() const {
        return std::get_if<T>(&data);
    }
};

struct TomlMember {
    std::string key;
    int line = 0;
    TomlValue value;
};

// The place of a value, for messages: "recipes/x.toml:12: data.batch_size", "--set data.batch_size" or, without an
// origin, "data.batch_size".
struct Place {
    std::string origin = {};
    int line = 0;
    std::string key = {};

    std::string text() const;
    // The place of a nested value; the line is ignored if this place has none.
    Place inner(std::string inner_key, int inner_line) const;
};

// Limits that are checked before parsing: toml++ uses a stack frame for every part of a dotted key.
inline constexpr std::size_t kMaxTomlBytes = 64 * 1024;
inline constexpr std::size_t kMaxTomlDots = 4096;

// Throws InvalidArgument with `origin`, and with the line if `has_lines`, for text that is not TOML.
TomlTable parse_toml(std::string_view text, const std::string& origin, bool has_lines = true);

// The bytes [begin, end) of a value in its text. A table is where it is opened: "[data]", "{...}", or a dotted key.
struct TomlSpan {
    std::size_t begin = 0;
    std::size_t end = 0;
};

// The place of a dotted key's value, such as "data.workers", whose parts are bare keys. Empty if the key is missing.
// Throws as parse_toml.
std::optional<TomlSpan> find_toml_value(std::string_view text, std::string_view key, const std::string& origin);

// The value as a finite double: a float, or an integer of magnitude up to kMaxExactInteger. Empty for anything else.
std::optional<double> exact_number(const TomlValue& value);

// The value for a message: `"abc"`, `3`, `true`, "an array", "a table".
std::string describe(const TomlValue& value);

// Text in double quotes for a message, truncated to 60 bytes.
std::string quoted_short(std::string_view text);

}  // namespace stoker

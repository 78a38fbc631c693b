// TOML text as plain values, each with its line: what the rest of this folder sees of TOML, so that
// toml++ is included by document.cpp alone.
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

struct TomlOther {
    std::string_view kind;  // "a date", "a time", "a date and time": read by no key
};

struct TomlValue {
    std::variant<bool, std::int64_t, double, std::string, TomlArray, TomlTable, TomlOther> data;
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

// Where a value stands, for messages: "recipes/x.toml:12: data.batch_size", or without a line
// "--set data.batch_size".
struct Place {
    std::string origin;
    int line = 0;
    std::string key = {};

    std::string text() const;
    // The place of something inside: another key, and another line where this place has lines at all.
    Place inner(std::string inner_key, int inner_line) const;
};

// Texts of more bytes, or with more dots, are refused unread: no recipe is that large, and toml++ takes
// a level of the stack for every part of a dotted key.
inline constexpr std::size_t kMaxTomlBytes = 64 * 1024;
inline constexpr std::size_t kMaxTomlDots = 4096;

// Throws InvalidArgument for text that is not TOML, naming `origin` and, where it has lines, the line.
TomlTable parse_toml(std::string_view text, const std::string& origin, bool has_lines = true);

// A finite number that a double holds exactly: a float, or an integer of at most kMaxExactInteger.
std::optional<double> exact_number(const TomlValue& value);

// The value as a message shows it: `"abc"`, `3`, `true`, "an array", "a table".
std::string describe(const TomlValue& value);

// Text in double quotes for a message, clipped to a readable length.
std::string quoted_short(std::string_view text);

}  // namespace stoker

// Parses a text that is a number and nothing else.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace stoker {

// The integer of decimal digits (or digits of `base`), with a minus sign if `Number` is signed. Empty for any other
// text and for a number out of range.
template <typename Number>
std::optional<Number> parse_number(std::string_view text, int base = 10) {
    Number value{};
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value, base);
    return error == std::errc{} && stop == end ? std::optional(value) : std::nullopt;
}

}  // namespace stoker

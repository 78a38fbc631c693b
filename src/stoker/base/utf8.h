// UTF-8 as Unicode defines it: no overlong forms, no surrogates, nothing beyond U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stoker {

// Length in bytes of the character that `text` begins with; 0 if it does not begin with a valid one.
inline std::size_t utf8_sequence(std::string_view text) {
    const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(text[at]); };
    const std::uint8_t first = text.empty() ? std::uint8_t{0x80} : byte(0);
    if (first < 0x80) {
        return 1;
    }
    const std::size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (length == 0 || text.size() < length) {
        return 0;
    }
    const std::uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const std::uint8_t most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (byte(1) < least || byte(1) > most) {
        return 0;
    }
    for (std::size_t i = 2; i < length; ++i) {
        if ((byte(i) & 0xc0) != 0x80) {
            return 0;
        }
    }
    return length;
}

inline bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const std::size_t length = utf8_sequence(text);
        if (length == 0) {
            return false;
        }
        text.remove_prefix(length);
    }
    return true;
}

// Appends the code point `code`, at most 0x10FFFF. Surrogates are encoded too: callers that must reject them check
// first.
inline void append_utf8(std::string& out, std::uint32_t code) {
    if (code < 0x80) {
        out += static_cast<char>(code);
        return;
    }
    const int tails = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    const unsigned mark = tails == 1 ? 0xc0 : tails == 2 ? 0xe0 : 0xf0;
    out += static_cast<char>(mark | code >> (6 * tails));
    for (int shift = 6 * (tails - 1); shift >= 0; shift -= 6) {
        out += static_cast<char>(0x80 | (code >> shift & 0x3f));
    }
}

}  // namespace stoker

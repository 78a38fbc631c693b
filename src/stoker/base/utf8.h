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

// The code point of one character: the bytes that utf8_sequence found.
inline std::uint32_t utf8_code_point(std::string_view character) {
    const auto byte = [&](std::size_t i) {
        return static_cast<std::uint32_t>(static_cast<std::uint8_t>(character[i]));
    };
    if (character.size() == 1) {
        return byte(0);
    }
    std::uint32_t code = byte(0) & (0xffU >> (character.size() + 1));
    for (std::size_t i = 1; i < character.size(); ++i) {
        code = code << 6 | (byte(i) & 0x3f);
    }
    return code;
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

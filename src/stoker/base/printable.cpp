// In JSON text, control characters below 0x20 are escaped already and the others occur only in strings, where \uXXXX is
// JSON's own escape.
#include "stoker/base/printable.h"

#include <algorithm>
#include <fmt/format.h>

#include "stoker/base/utf8.h"

namespace stoker {
namespace {

std::string escaped(std::string_view text, bool keep_lines) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const std::size_t length = utf8_sequence(text);
        const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
        const std::uint32_t code = length == 0 ? 0 : utf8_code_point(character);
        if (length == 0 || (code < 0x20 && !(keep_lines && code == '\n'))) {
            out += fmt::format("\\x{:02x}", static_cast<unsigned char>(character.front()));
        } else if (code >= 0x7f && is_control(code)) {
            out += fmt::format("\\u{:04x}", code);
        } else {
            out += character;
        }
        text.remove_prefix(character.size());
    }
    return out;
}

}  // namespace

bool is_control(std::uint32_t code_point) {
    const auto between = [&](std::uint32_t first, std::uint32_t last) {
        return code_point >= first && code_point <= last;
    };
    return code_point < 0x20 || between(0x7f, 0x9f) || code_point == 0x061c || between(0x200e, 0x200f) ||
           between(0x2028, 0x202e) || between(0x2066, 0x2069);
}

std::string printable(std::string_view text) {
    return escaped(text, /*keep_lines=*/false);
}

std::string utf8_text(std::string_view text) {
    return is_utf8(text) ? std::string(text) : printable(text);
}

std::string printable_lines(std::string_view text) {
    return escaped(text, /*keep_lines=*/true);
}

}  // namespace stoker

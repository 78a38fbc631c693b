// No function makes a text longer than twice its input, so hostile input cannot claim memory.
#include "stoker/formats/pickle/pickle_reader.h"

#include <cstdint>

#include "stoker/base/parse_number.h"
#include "stoker/base/utf8.h"

namespace stoker {
namespace {

std::optional<std::uint32_t> hexadecimal(std::string_view digits, std::size_t count) {
    return digits.size() < count ? std::nullopt : parse_number<std::uint32_t>(digits.substr(0, count), 16);
}

}  // namespace

std::optional<std::string> unquote(std::string_view literal) {
    const bool quoted =
        literal.size() >= 2 && (literal.front() == '\'' || literal.front() == '"') && literal.back() == literal.front();
    if (!quoted) {
        return std::nullopt;
    }
    const std::string_view inner = literal.substr(1, literal.size() - 2);
    std::string out;
    for (std::size_t i = 0; i < inner.size(); ++i) {
        if (inner[i] != '\\') {
            out += inner[i];
            continue;
        }
        if (++i == inner.size()) {
            return std::nullopt;
        }
        constexpr std::string_view kEscapes = "\\'\"nrt";
        constexpr std::string_view kMeanings = "\\'\"\n\r\t";
        if (const std::size_t at = kEscapes.find(inner[i]); at != std::string_view::npos) {
            out += kMeanings[at];
            continue;
        }
        const auto code = inner[i] == 'x' ? hexadecimal(inner.substr(i + 1), 2) : std::nullopt;
        if (!code) {
            return std::nullopt;
        }
        out += static_cast<char>(*code);
        i += 2;
    }
    return out;
}

std::optional<std::string> raw_unicode(std::string_view line) {
    std::string out;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const char next = line[i] == '\\' && i + 1 < line.size() ? line[i + 1] : '\0';
        if (next != 'u' && next != 'U') {
            append_utf8(out, static_cast<unsigned char>(line[i]));
            continue;
        }
        const std::size_t digits = next == 'u' ? 4 : 8;
        const auto code = hexadecimal(line.substr(i + 2), digits);
        if (!code || *code > 0x10FFFF) {
            return std::nullopt;
        }
        append_utf8(out, *code);
        i += 1 + digits;
    }
    return out;
}

std::optional<std::string> latin1(std::string_view text) {
    std::string out(text.size(), '\0');
    char* to = out.data();
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto first = static_cast<unsigned char>(text[i]);
        if (first < 0x80) {
            *to++ = text[i];
            continue;
        }
        const auto second = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
        if ((first != 0xC2 && first != 0xC3) || (second & 0xC0) != 0x80) {
            return std::nullopt;
        }
        *to++ = static_cast<char>((first & 3) << 6 | (second & 0x3F));
        ++i;
    }
    out.resize(static_cast<std::size_t>(to - out.data()));
    return out;
}

}  // namespace stoker

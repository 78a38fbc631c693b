// Element types, sizes and text of .npy files; npy_header.cpp parses the header.
#include "stoker/formats/arrays/npy.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <string_view>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/base/parse_number.h"
#include "stoker/base/utf8.h"

namespace stoker {
namespace {

// "<f4": byte order, type code, item size (of U: characters).
struct Descr {
    bool big_endian = false;
    char kind = 0;
    std::uint64_t number = 0;
};

std::optional<Descr> parse_descr(std::string_view text) {
    if (text.size() < 3 || std::string_view("<>|=").find(text[0]) == std::string_view::npos) {
        return std::nullopt;
    }
    const auto number = parse_number<std::uint64_t>(text.substr(2));
    return number ? std::optional(Descr{.big_endian = text[0] == '>', .kind = text[1], .number = *number})
                  : std::nullopt;
}

std::optional<ArrayType> number_type(const Descr& descr) {
    std::optional<ArrayType> type = numpy_type(descr.kind, descr.number);
    if (type) {
        type->big_endian = descr.big_endian && type->item_size > 1;
    }
    return type;
}

[[noreturn]] void refuse_type(const NpyHeader& header, const char* expected) {
    const bool objects = header.descr.size() > 1 && header.descr[1] == 'O';
    throw Unsupported(
        {.where = "npy",
         .expected = expected,
         .got = fmt::format("{} of ({})", shown_npy(header.descr), fmt::join(header.shape, ", ")),
         .hint = objects ? "these are Python objects as pickles, which are never executed: save plain arrays" : ""});
}

// `type()` returns the type's name. It is called for a message only: formatting it would take longer than parsing.
template <typename TypeName>
void check_elements(const NpyHeader& header, std::size_t file_bytes, std::uint64_t wanted, TypeName type) {
    if (const std::size_t found = file_bytes - header.data; found != wanted) {
        refuse_npy(std::min<std::size_t>(file_bytes, header.data + wanted),
                   fmt::format("{} bytes for {} of ({})", wanted, type(), fmt::join(header.shape, ", ")),
                   fmt::format("{}", found));
    }
}

std::string text_of_str(std::span<const std::byte> item, bool big_endian, std::size_t offset) {
    std::string out;
    std::size_t zeros = 0;  // trailing zeros are padding
    for (std::size_t at = 0; at < item.size(); at += 4) {
        std::uint32_t code = 0;
        for (std::size_t i = 0; i < 4; ++i) {
            code = code << 8 | std::to_integer<std::uint32_t>(item[at + (big_endian ? i : 3 - i)]);
        }
        if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
            refuse_npy(offset + at, "a Unicode character", fmt::format("{:#x}", code));
        }
        if (code == 0) {
            ++zeros;
            continue;
        }
        out.append(zeros, '\0');
        zeros = 0;
        append_utf8(out, code);
    }
    return out;
}

std::string text_of_bytes(std::span<const std::byte> item) {
    const std::string_view text = as_text(item);
    return std::string(text.substr(0, text.find_last_not_of('\0') + 1));
}

}  // namespace

ArrayView parse_npy(std::span<const std::byte> bytes) {
    NpyHeader header = read_npy_header(bytes);
    const auto descr = parse_descr(header.descr);
    const auto type = descr ? number_type(*descr) : std::nullopt;
    if (!type) {
        refuse_type(header, "bool, int, uint or float of 1 to 8 bytes");
    }
    check_elements(header, bytes.size(), checked_array_bytes(*type, header.shape),
                   [&] { return array_type_name(*type); });
    return {.name = {},
            .type = *type,
            .shape = std::move(header.shape),
            .fortran = header.fortran,
            .bytes = bytes.subspan(header.data),
            .offset = header.data};
}

std::vector<std::string> parse_npy_text(std::span<const std::byte> bytes) {
    const NpyHeader header = read_npy_header(bytes);
    const auto descr = parse_descr(header.descr);
    const bool str = descr && descr->kind == 'U';
    constexpr std::uint64_t kLongest = std::uint64_t{1} << 30;
    if (!descr || (!str && descr->kind != 'S') || descr->number < 1 || descr->number > kLongest) {
        refuse_type(header, "text, str or bytes");
    }
    if (header.shape.size() != 1) {
        refuse_npy(header.data, "text in one dimension", fmt::format("({})", fmt::join(header.shape, ", ")));
    }
    const std::uint64_t item = descr->number * (str ? 4 : 1);
    const auto count = static_cast<std::uint64_t>(header.shape[0]);
    if (count > bytes.size() / item) {
        refuse_npy(header.data, fmt::format("{} texts of {} bytes", count, item),
                   fmt::format("{} bytes", bytes.size() - header.data));
    }
    check_elements(header, bytes.size(), count * item, [&] { return header.descr; });
    require_memory(count * (sizeof(std::string) + item), "texts");
    std::vector<std::string> texts;
    texts.reserve(count);
    for (std::size_t at = header.data; at < bytes.size(); at += item) {
        const auto one = bytes.subspan(at, item);
        texts.push_back(str ? text_of_str(one, descr->big_endian, at) : text_of_bytes(one));
    }
    return texts;
}

}  // namespace stoker

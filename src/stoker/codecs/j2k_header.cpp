// The boxes of a .jp2 file around its codestream, and the palette: OpenJPEG makes a plane of each of its columns.
#include "stoker/codecs/j2k_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "stoker/base/error.h"
#include "stoker/codecs/byte_order.h"
#include "stoker/codecs/j2k_codestream.h"
#include "stoker/codecs/region.h"

namespace stoker {
namespace {

using namespace std::string_view_literals;

struct FileBox {
    std::string_view type;
    std::size_t begin = 0;  // of its content
    std::size_t end = 0;
};

FileBox read_box(std::span<const std::byte> bytes, std::size_t at, std::size_t end) {
    if (end - at < 8) {
        throw_truncated("jp2", "JPEG 2000", bytes.size());
    }
    std::uint64_t size = load_be(bytes, at, 4);
    const std::string_view type(reinterpret_cast<const char*>(bytes.data()) + at + 4, 4);
    std::size_t header = 8;
    if (size == 1) {
        header = 16;
        if (end - at < header) {
            throw_truncated("jp2", "JPEG 2000", bytes.size());
        }
        size = std::uint64_t{load_be(bytes, at + 8, 4)} << 32 | load_be(bytes, at + 12, 4);
    } else if (size == 0) {
        size = end - at;
    }
    if (size > end - at) {
        throw_truncated("jp2", "JPEG 2000", bytes.size());
    }
    if (size < header) {
        throw DataError({.path = {}, .offset = static_cast<std::int64_t>(at)},
                        {.where = "jp2", .expected = "a box of a JPEG 2000 file", .got = "a shorter one"});
    }
    return {.type = type, .begin = at + header, .end = at + size};
}

// The columns of the palette among the header's boxes; 0 without one.
std::size_t palette_columns(std::span<const std::byte> bytes, const FileBox& header) {
    std::size_t columns = 0;
    for (std::size_t at = header.begin; at < header.end;) {
        const FileBox box = read_box(bytes, at, header.end);
        if (box.type == "pclr"sv && box.end - box.begin >= 3) {
            columns = load_be(bytes, box.begin + 2, 1);
        }
        at = box.end;
    }
    return columns;
}

}  // namespace

bool is_j2k(std::span<const std::byte> bytes) {
    return bytes.size() >= 4 && load_be(bytes, 0, 4) == 0xFF4FFF51;
}

bool is_jp2(std::span<const std::byte> bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return text.starts_with("\0\0\0\x0cjP  \x0d\x0a\x87\x0a"sv);
}

J2kHeader read_j2k_header(std::span<const std::byte> bytes) {
    if (is_j2k(bytes)) {
        return read_j2k_codestream(bytes, 0, bytes.size());
    }
    constexpr std::size_t kMostColumns = 4;
    std::size_t columns = 0;
    for (std::size_t at = 0; at < bytes.size();) {
        const FileBox box = read_box(bytes, at, bytes.size());
        if (box.type == "jp2h"sv) {
            columns = std::max(columns, palette_columns(bytes, box));
            if (columns > kMostColumns) {
                throw DataError(
                    {.path = {}, .offset = static_cast<std::int64_t>(at)},
                    {.where = "jp2", .expected = "a palette of up to 4 columns", .got = fmt::to_string(columns)});
            }
        } else if (box.type == "jp2c"sv) {
            J2kHeader header =
                read_j2k_codestream(bytes.subspan(box.begin, box.end - box.begin), box.begin, bytes.size());
            header.memory +=
                4 * columns * static_cast<std::uint64_t>(header.height) * static_cast<std::uint64_t>(header.width);
            return header;
        }
        at = box.end;
    }
    throw_truncated("jp2", "JPEG 2000", bytes.size());
}

}  // namespace stoker

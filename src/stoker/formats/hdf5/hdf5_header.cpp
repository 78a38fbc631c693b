// There are two versions of object headers. In version 1 each message has 8 bytes before it; in version 2, which begins
// with "OHDR", 4 or 6. Both may continue in other blocks of the file.
#include "stoker/formats/hdf5/hdf5_bytes.h"

#include <algorithm>
#include <deque>
#include <fmt/format.h>
#include <functional>

namespace stoker {
namespace {

constexpr std::uint64_t kLinkMessage = 0x06;
constexpr std::uint64_t kLayoutMessage = 0x08;
constexpr std::uint64_t kAttributeMessage = 0x0c;
constexpr std::uint64_t kContinuationMessage = 0x10;
constexpr std::uint64_t kSymbolTableMessage = 0x11;
constexpr std::uint64_t kCompactClass = 0;
constexpr std::uint64_t kChunkedClass = 2;
constexpr std::size_t kMaxBlocks = 1000;  // real files have a few
constexpr const char* kHeader = "an object header";

struct Block {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
};

struct Header {
    bool version_2 = false;
    bool creation_order = false;
    Block first;
};

Header read_prefix(const Hdf5Bytes& file, std::uint64_t offset) {
    constexpr std::uint64_t kLongest = 64;
    Hdf5Cursor cursor(file, offset, kLongest, kHeader);
    if (cursor.number(1) == 1) {
        cursor.skip(1 + 2 + 4);  // reserved, number of messages, references
        const std::uint64_t size = cursor.number(4);
        cursor.skip(4);
        return {.first = {cursor.offset(), size}};
    }
    Hdf5Cursor again(file, offset, kLongest, kHeader);
    if (again.text(4) != "OHDR" || again.number(1) != 2) {
        file.damaged(offset, "an object header of version 1 or 2", file.shown(offset, 5));
    }
    const std::uint64_t flags = again.number(1);
    again.skip((flags & 0x20) != 0 ? 16 : 0);  // times
    again.skip((flags & 0x10) != 0 ? 4 : 0);   // bounds on attributes
    const std::uint64_t size = again.number(1 << (flags & 3));
    return {.version_2 = true, .creation_order = (flags & 0x04) != 0, .first = {again.offset(), size}};
}

// `cursor`: at the layout message.
std::optional<std::uint64_t> read_layout(const Hdf5Bytes& file, Hdf5Cursor& cursor) {
    const std::uint64_t offset = cursor.offset();
    const std::uint64_t version = cursor.number(1);
    if (version >= 4) {
        return std::nullopt;
    }
    std::uint64_t kind = 0;
    if (version == 3) {
        kind = cursor.number(1);
        cursor.skip(1);  // number of dimensions
    } else {
        cursor.skip(1);
        kind = cursor.number(1);
        cursor.skip(5);
    }
    if (version == 0 || kind != kChunkedClass) {
        file.damaged(offset, "the layout of a chunked dataset", fmt::format("version {}, class {}", version, kind));
    }
    return cursor.address();
}

// `cursor`: at an attribute message. Empty if it has another name.
std::optional<ByteRange> read_attribute(const Hdf5Bytes& file, Hdf5Cursor& cursor, std::string_view name) {
    const std::uint64_t offset = cursor.offset();
    const std::uint64_t version = cursor.number(1);
    if (version < 1 || version > 3) {
        file.damaged(offset, "an attribute of version 1 to 3", fmt::format("version {}", version));
    }
    cursor.skip(1);
    const std::uint64_t name_size = cursor.number(2);
    const std::uint64_t type_size = cursor.number(2);
    const std::uint64_t space_size = cursor.number(2);
    cursor.skip(version == 3 ? 1 : 0);  // the name's character set
    const auto padded = [&](std::uint64_t size) { return version == 1 ? (size + 7) / 8 * 8 : size; };
    const std::string_view found = cursor.text(padded(name_size));
    if (found.substr(0, found.find('\0')) != name) {
        return std::nullopt;
    }
    cursor.skip(padded(type_size) + padded(space_size));
    return ByteRange{.offset = cursor.offset(), .size = cursor.left()};
}

// `cursor`: at a link message. The address of the object header that a hard link names; empty for other links.
std::optional<std::uint64_t> read_link(Hdf5Cursor& cursor) {
    constexpr std::uint64_t kHardLink = 0;
    cursor.skip(1);  // version
    const std::uint64_t flags = cursor.number(1);
    const std::uint64_t kind = (flags & 0x08) != 0 ? cursor.number(1) : kHardLink;
    cursor.skip((flags & 0x04) != 0 ? 8 : 0);  // creation order
    cursor.skip((flags & 0x10) != 0 ? 1 : 0);  // the name's character set
    cursor.skip(cursor.number(1 << (flags & 3)));
    return kind == kHardLink ? std::optional(cursor.address()) : std::nullopt;
}

void add_block(const Hdf5Bytes& file, std::deque<Block>& blocks, const Block& block) {
    if (blocks.size() == kMaxBlocks || std::ranges::find(blocks, block.offset, &Block::offset) != blocks.end()) {
        file.damaged(block.offset, fmt::format("a header of at most {} different blocks", kMaxBlocks),
                     "more, or the same block twice");
    }
    blocks.push_back(block);
}

// A cursor at the content of the first message of that type for which `wanted` returns true.
std::optional<Hdf5Cursor> find_message(const Hdf5Bytes& file, std::uint64_t header, std::uint64_t type,
                                       const std::function<bool(const Hdf5Cursor&)>& wanted) {
    const std::uint64_t offset = file.offset_of(header, kHeader);
    const Header form = read_prefix(file, offset);
    const std::size_t message_header = !form.version_2 ? 8 : form.creation_order ? 6 : 4;
    std::deque<Block> blocks = {form.first};
    for (std::size_t done = 0; done < blocks.size(); ++done) {
        Hdf5Cursor cursor(file, blocks[done].offset, blocks[done].size, kHeader);
        if (form.version_2 && done > 0 && cursor.text(4) != "OCHK") {
            file.damaged(blocks[done].offset, "a continuation of a header (\"OCHK\")",
                         file.shown(blocks[done].offset, 4));
        }
        while (cursor.left() >= message_header) {
            const std::uint64_t found = cursor.number(form.version_2 ? 1 : 2);
            const std::uint64_t size = cursor.number(2);
            cursor.skip(message_header - (form.version_2 ? 3 : 4));
            if (found == type && wanted(cursor)) {
                return cursor;
            }
            if (found == kContinuationMessage) {
                Hdf5Cursor where = cursor;
                const std::uint64_t next = file.offset_of(where.address(), kHeader);
                add_block(file, blocks, {next, where.length()});
            }
            if (size > cursor.left()) {
                break;  // the checksum of version 2, or a gap before it
            }
            cursor.skip(size);
        }
    }
    return std::nullopt;
}

// A cursor at the layout message of a dataset.
Hdf5Cursor find_layout(const Hdf5Bytes& file, std::uint64_t header) {
    const auto layout = find_message(file, header, kLayoutMessage, [](const Hdf5Cursor&) { return true; });
    if (!layout) {
        file.damaged(file.offset_of(header, kHeader), "a header with a layout", "none");
    }
    return *layout;
}

}  // namespace

std::optional<std::uint64_t> find_chunk_tree(const Hdf5Bytes& file, std::uint64_t header) {
    Hdf5Cursor cursor = find_layout(file, header);
    return read_layout(file, cursor);
}

ByteRange find_compact_data(const Hdf5Bytes& file, std::uint64_t header) {
    Hdf5Cursor cursor = find_layout(file, header);
    const std::uint64_t offset = cursor.offset();
    const std::uint64_t version = cursor.number(1);
    const std::uint64_t sides = version < 3 ? cursor.number(1) : 0;
    const std::uint64_t kind = cursor.number(1);
    if (version == 0 || kind != kCompactClass) {
        file.damaged(offset, "the layout of a compact dataset", fmt::format("version {}, class {}", version, kind));
    }
    cursor.skip(version < 3 ? 5 + 4 * sides : 0);
    const std::uint64_t size = cursor.number(version < 3 ? 4 : 2);
    const ByteRange data{.offset = cursor.offset(), .size = size};
    cursor.skip(size);
    return data;
}

std::optional<ByteRange> find_attribute(const Hdf5Bytes& file, std::uint64_t header, std::string_view name) {
    std::optional<ByteRange> found;
    find_message(file, header, kAttributeMessage, [&](Hdf5Cursor cursor) {
        found = read_attribute(file, cursor, name);
        return found.has_value();
    });
    return found;
}

Hdf5GroupLinks read_group_links(const Hdf5Bytes& file, std::uint64_t header) {
    Hdf5GroupLinks links;
    find_message(file, header, kSymbolTableMessage, [&](Hdf5Cursor cursor) {
        links.tree = cursor.address();
        return true;
    });
    find_message(file, header, kLinkMessage, [&](Hdf5Cursor cursor) {
        if (const auto linked = read_link(cursor)) {
            links.headers.push_back(*linked);
        }
        return false;
    });
    return links;
}

}  // namespace stoker

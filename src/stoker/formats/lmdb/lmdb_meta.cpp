// The layout on 64-bit little-endian machines: a page header, then MDB_meta, which is the same in LMDB 0.9 and 1.0.
#include "stoker/formats/lmdb/lmdb_meta.h"

#include <lmdb.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <span>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr std::uint32_t kMagic = 0xbeefc0de;
constexpr std::uint16_t kMetaPage = 0x08;     // flag of a meta page
constexpr std::uint16_t kEncrypted = 0x2000;  // MDB_ENCRYPT of LMDB 1.0, in the flags of the free pages

struct Database {
    std::uint32_t page_size = 0;  // in free_pages only
    std::uint16_t flags = 0;
    std::uint16_t depth = 0;
    std::uint64_t branch_pages = 0;
    std::uint64_t leaf_pages = 0;
    std::uint64_t overflow_pages = 0;
    std::uint64_t entries = 0;
    std::uint64_t root = 0;
};

struct Meta {
    std::uint32_t magic = 0;
    std::uint32_t version = 0;
    std::uint64_t address = 0;
    std::uint64_t map_size = 0;
    Database free_pages;
    Database unnamed;
    std::uint64_t last_page = 0;
    std::uint64_t transaction = 0;
};
static_assert(sizeof(Meta) == 136 && std::endian::native == std::endian::little);

// A format's page header: its size, and where the page's flags are.
struct Header {
    LmdbFormat format;
    std::uint32_t version;
    std::size_t bytes;
    std::size_t flags_at;
};
constexpr Header kHeaders[] = {{LmdbFormat::v0_9, 1, 16, 10}, {LmdbFormat::v1_0, 3, 24, 18}};

[[noreturn]] void bad(const std::string& path, std::uint64_t offset, std::string expected, std::string got,
                      std::string hint = {}) {
    throw DataError({.path = path, .offset = static_cast<std::int64_t>(offset)},
                    {.where = "lmdb", .expected = std::move(expected), .got = std::move(got), .hint = std::move(hint)});
}

LmdbMeta read_page(const File& file, std::uint64_t size, std::uint64_t offset, const std::string& path) {
    std::array<std::byte, sizeof(Meta) + 24> bytes;
    if (size < bytes.size() || offset > size - bytes.size()) {
        bad(path, size, "the first two pages of an LMDB file", fmt::format("{} bytes in all", size));
    }
    file.read(offset, bytes);
    const auto load = [&](std::size_t at, auto number) {
        std::memcpy(&number, bytes.data() + at, sizeof number);
        return number;
    };
    const Header& header = kHeaders[load(kHeaders[1].bytes, std::uint32_t{}) == kMagic ? 1 : 0];
    const Meta page = load(header.bytes, Meta{});
    constexpr std::uint32_t kSwapped = 0xdec0efbe;
    if (page.magic == kSwapped || load(kHeaders[1].bytes, std::uint32_t{}) == kSwapped) {
        throw Unsupported({.where = path,
                           .expected = "an LMDB file of a little-endian machine",
                           .got = "one of a big-endian machine",
                           .hint = "dump it there with mdb_dump and load it here with mdb_load"});
    }
    if (page.magic != kMagic || (load(header.flags_at, std::uint16_t{}) & kMetaPage) == 0) {
        bad(path, offset, "an LMDB data file", fmt::format("{:08x} for the magic number beefc0de", page.magic));
    }
    if (page.version != header.version) {
        throw Unsupported({.where = path,
                           .expected = "version 1 (LMDB 0.9) or 3 (LMDB 1.0) of the LMDB file format",
                           .got = fmt::format("{}", page.version)});
    }
    if (header.format == LmdbFormat::v1_0 && (page.free_pages.flags & kEncrypted) != 0) {
        throw Unsupported({.where = path, .expected = "an LMDB file without encryption", .got = "an encrypted one"});
    }
    if ((page.unnamed.flags & MDB_DUPSORT) != 0) {
        throw Unsupported({.where = path,
                           .expected = "an LMDB database of one value per key",
                           .got = "several values (MDB_DUPSORT)"});
    }
    const std::uint32_t page_size = page.free_pages.page_size;
    if (!std::has_single_bit(page_size) || page_size < 256 || page_size > 65536) {
        bad(path, offset + header.bytes + offsetof(Meta, free_pages), "a page size of 256 to 65536, a power of two",
            fmt::format("{}", page_size), "files of 32-bit machines cannot be read");
    }
    constexpr std::uint64_t kMaxMap = std::uint64_t{1} << 47;  // the largest address space of a process
    if (page.map_size > kMaxMap) {
        bad(path, offset + header.bytes + offsetof(Meta, map_size), fmt::format("a map of at most {} bytes", kMaxMap),
            fmt::format("{}", page.map_size));
    }
    if (page.last_page < 1) {  // liblmdb would map one page and read two
        bad(path, offset + header.bytes + offsetof(Meta, last_page), "at least two pages", "one");
    }
    constexpr std::uint16_t kMaxDepth = 32;  // liblmdb's limit
    if (page.unnamed.depth > kMaxDepth) {
        bad(path, offset + header.bytes + offsetof(Meta, unnamed) + offsetof(Database, depth),
            fmt::format("a B-tree of at most {} levels", kMaxDepth), fmt::format("{}", page.unnamed.depth));
    }
    return {.format = header.format,
            .page_size = page_size,
            .last_page = page.last_page,
            .transaction = page.transaction,
            .entries = page.unnamed.entries,
            .root = page.unnamed.root,
            .depth = page.unnamed.depth,
            .keys_from_end = (page.unnamed.flags & (MDB_REVERSEKEY | MDB_INTEGERKEY)) != 0};
}

}  // namespace

LmdbMeta read_lmdb_meta(const File& file, const std::string& path) {
    const std::uint64_t size = file.info().size;
    const LmdbMeta first = read_page(file, size, 0, path);
    const LmdbMeta second = read_page(file, size, first.page_size, path);
    const LmdbMeta& newest = second.transaction > first.transaction ? second : first;
    if (second.format != first.format) {
        bad(path, first.page_size, "two meta pages of one format", "those of LMDB 0.9 and 1.0");
    }
    if (second.page_size != first.page_size) {
        bad(path, first.page_size, fmt::format("pages of {} bytes", first.page_size),
            fmt::format("{}", second.page_size));
    }
    // Taken again, since a writer may have grown the file before it wrote the meta page that was read.
    const std::uint64_t now = file.info().size;
    constexpr std::uint64_t kNoPage = ~std::uint64_t{0};
    if (newest.root != kNoPage && newest.root >= now / newest.page_size) {
        bad(path, now, fmt::format("the B-tree's root in page {} of {} bytes", newest.root, newest.page_size),
            fmt::format("a file of {} bytes", now),
            "it has been cut short: copy it again, or run mdb_copy -c on the original");
    }
    if (newest.entries > now / 8) {  // an entry has a header of 8 bytes
        bad(path, 0, fmt::format("as many entries as {} bytes have room for", now), fmt::format("{}", newest.entries));
    }
    return newest;
}

std::optional<LmdbMeta> find_lmdb_meta(const File& file, std::uint64_t transaction, const std::string& path) {
    const std::uint64_t size = file.info().size;
    const LmdbMeta first = read_page(file, size, 0, path);
    const LmdbMeta second = read_page(file, size, first.page_size, path);
    return first.transaction == transaction    ? std::optional(first)
           : second.transaction == transaction ? std::optional(second)
                                               : std::nullopt;
}

}  // namespace stoker

// The layout of LMDB 0.9 on 64-bit little-endian machines: a page header of 16 bytes, then MDB_meta.
#include "stoker/formats/lmdb/lmdb_meta.h"

#include <lmdb.h>

#include <bit>
#include <cstddef>
#include <fmt/format.h>
#include <span>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr std::uint32_t kMagic = 0xbeefc0de;
constexpr std::uint32_t kVersion = 1;
constexpr std::uint16_t kMetaPage = 0x08;  // flag of a meta page

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

struct MetaPage {
    std::uint64_t number = 0;
    std::uint16_t unused = 0;
    std::uint16_t flags = 0;
    std::uint32_t bounds = 0;
    std::uint32_t magic = 0;
    std::uint32_t version = 0;
    std::uint64_t address = 0;
    std::uint64_t map_size = 0;
    Database free_pages;
    Database unnamed;
    std::uint64_t last_page = 0;
    std::uint64_t transaction = 0;
};
static_assert(sizeof(MetaPage) == 152 && std::endian::native == std::endian::little);

[[noreturn]] void bad(const std::string& path, std::uint64_t offset, std::string expected, std::string got,
                      std::string hint = {}) {
    throw DataError({.path = path, .offset = static_cast<std::int64_t>(offset)},
                    {.where = "lmdb", .expected = std::move(expected), .got = std::move(got), .hint = std::move(hint)});
}

LmdbMeta read_page(const File& file, std::uint64_t size, std::uint64_t offset, const std::string& path) {
    MetaPage page;
    if (size < sizeof page || offset > size - sizeof page) {
        bad(path, size, "the first two pages of an LMDB file", fmt::format("{} bytes in all", size));
    }
    file.read(offset, std::as_writable_bytes(std::span(&page, 1)));
    if (page.magic == 0xdec0efbe) {
        throw Unsupported({.where = path,
                           .expected = "an LMDB file of a little-endian machine",
                           .got = "one of a big-endian machine",
                           .hint = "dump it there with mdb_dump and load it here with mdb_load"});
    }
    if (page.magic != kMagic && static_cast<std::uint32_t>(page.address) == kMagic) {  // 8 bytes later
        throw Unsupported({.where = path,
                           .expected = "an LMDB file in the format of LMDB 0.9",
                           .got = "one in the format of LMDB 1.0",
                           .hint =
                               "write it with LMDB 0.9; or copy it to that by Python's lmdb 3, whose lmdb.open(..., "
                               "lib_version=0) does"});
    }
    if (page.magic != kMagic || (page.flags & kMetaPage) == 0) {
        bad(path, offset, "an LMDB data file", fmt::format("{:08x} for the magic number beefc0de", page.magic));
    }
    if (page.version != kVersion) {
        throw Unsupported({.where = path,
                           .expected = fmt::format("version {} of the LMDB file format", kVersion),
                           .got = fmt::format("{}", page.version)});
    }
    if ((page.unnamed.flags & MDB_DUPSORT) != 0) {
        throw Unsupported({.where = path,
                           .expected = "an LMDB database of one value per key",
                           .got = "several values (MDB_DUPSORT)"});
    }
    const std::uint32_t page_size = page.free_pages.page_size;
    if (!std::has_single_bit(page_size) || page_size < 256 || page_size > 65536) {
        bad(path, offset + offsetof(MetaPage, free_pages), "a page size of 256 to 65536, a power of two",
            fmt::format("{}", page_size), "files of 32-bit machines cannot be read");
    }
    constexpr std::uint64_t kMaxMap = std::uint64_t{1} << 47;  // the largest address space of a process
    if (page.map_size > kMaxMap) {
        bad(path, offset + offsetof(MetaPage, map_size), fmt::format("a map of at most {} bytes", kMaxMap),
            fmt::format("{}", page.map_size));
    }
    if (page.last_page < 1) {  // liblmdb would map one page and read two
        bad(path, offset + offsetof(MetaPage, last_page), "at least two pages", "one");
    }
    constexpr std::uint16_t kMaxDepth = 32;  // liblmdb's limit
    if (page.unnamed.depth > kMaxDepth) {
        bad(path, offset + offsetof(MetaPage, unnamed) + offsetof(Database, depth),
            fmt::format("a B-tree of at most {} levels", kMaxDepth), fmt::format("{}", page.unnamed.depth));
    }
    return {.page_size = page_size,
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
    if (second.page_size != first.page_size) {
        bad(path, first.page_size + offsetof(MetaPage, free_pages), fmt::format("pages of {} bytes", first.page_size),
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
        bad(path, offsetof(MetaPage, unnamed) + offsetof(Database, entries),
            fmt::format("as many entries as {} bytes have room for", now), fmt::format("{}", newest.entries));
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

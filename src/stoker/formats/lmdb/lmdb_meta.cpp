// Layout of LMDB 0.9 on 64-bit machines of little-endian numbers: a page header of 16 bytes, then the description.
#include "stoker/formats/lmdb/lmdb_meta.h"

#include <array>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <span>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr std::uint32_t kMagic = 0xbeefc0de;
constexpr std::uint32_t kVersion = 1;
constexpr std::uint16_t kMetaPage = 0x08;  // the flag of such a page

// Offsets within the page.
constexpr std::size_t kFlagsAt = 10;
constexpr std::size_t kMagicAt = 16;
constexpr std::size_t kVersionAt = 20;
constexpr std::size_t kMapSizeAt = 32;
constexpr std::size_t kPageSizeAt = 40;
constexpr std::size_t kDatabaseFlagsAt = 92;
constexpr std::size_t kDepthAt = 94;
constexpr std::size_t kEntriesAt = 120;
constexpr std::size_t kRootAt = 128;
constexpr std::size_t kLastPageAt = 136;
constexpr std::size_t kTransactionAt = 144;
constexpr std::size_t kBytes = 152;

// Flags of a database.
constexpr std::uint16_t kReverseKey = 0x02;
constexpr std::uint16_t kSeveralValues = 0x04;
constexpr std::uint16_t kIntegerKey = 0x08;

using MetaBytes = std::array<std::byte, kBytes>;

template <typename Number>
Number load(const MetaBytes& bytes, std::size_t at) {
    static_assert(std::endian::native == std::endian::little);
    Number number;
    std::memcpy(&number, bytes.data() + at, sizeof number);
    return number;
}

[[noreturn]] void bad(const std::string& path, std::uint64_t offset, std::string expected, std::string got,
                      std::string hint = {}) {
    throw DataError({.path = path, .offset = static_cast<std::int64_t>(offset)},
                    {.where = "lmdb", .expected = std::move(expected), .got = std::move(got), .hint = std::move(hint)});
}

LmdbMeta read_page(const File& file, std::uint64_t size, std::uint64_t offset, const std::string& path) {
    MetaBytes bytes;
    if (size < kBytes || offset > size - kBytes) {
        bad(path, size, "the first two pages of an LMDB file", fmt::format("{} bytes in all", size));
    }
    file.read(offset, bytes);
    const auto magic = load<std::uint32_t>(bytes, kMagicAt);
    if (magic == 0xdec0efbe) {
        throw Unsupported({.where = path,
                           .expected = "an LMDB file of a little-endian machine",
                           .got = "one of a big-endian machine",
                           .hint = "dump it there with mdb_dump and load it here with mdb_load"});
    }
    if (magic != kMagic || (load<std::uint16_t>(bytes, kFlagsAt) & kMetaPage) == 0) {
        bad(path, offset, "an LMDB data file", fmt::format("{:08x} for the magic number beefc0de", magic));
    }
    const auto version = load<std::uint32_t>(bytes, kVersionAt);
    if (version != kVersion) {
        throw Unsupported({.where = path,
                           .expected = fmt::format("version {} of the LMDB file format", kVersion),
                           .got = fmt::format("{}", version)});
    }
    const auto flags = load<std::uint16_t>(bytes, kDatabaseFlagsAt);
    const LmdbMeta meta{.page_size = load<std::uint32_t>(bytes, kPageSizeAt),
                        .last_page = load<std::uint64_t>(bytes, kLastPageAt),
                        .transaction = load<std::uint64_t>(bytes, kTransactionAt),
                        .entries = load<std::uint64_t>(bytes, kEntriesAt),
                        .root = load<std::uint64_t>(bytes, kRootAt),
                        .depth = load<std::uint16_t>(bytes, kDepthAt),
                        .keys_from_end = (flags & (kReverseKey | kIntegerKey)) != 0};
    if ((flags & kSeveralValues) != 0) {
        throw Unsupported(
            {.where = path, .expected = "an LMDB database of one value a key", .got = "one of several (MDB_DUPSORT)"});
    }
    if (!std::has_single_bit(meta.page_size) || meta.page_size < 256 || meta.page_size > 65536) {
        bad(path, offset + kPageSizeAt, "a page size of 256 to 65536, a power of two",
            fmt::format("{}", meta.page_size), "files of 32-bit machines cannot be read");
    }
    constexpr std::uint64_t kLargestMap = std::uint64_t{1} << 47;  // what a process can address
    if (const auto map_size = load<std::uint64_t>(bytes, kMapSizeAt); map_size > kLargestMap) {
        bad(path, offset + kMapSizeAt, fmt::format("a map of at most {} bytes", kLargestMap),
            fmt::format("{}", map_size));
    }
    if (meta.last_page < 1) {  // liblmdb would map the first of the two alone, and look at both
        bad(path, offset + kLastPageAt, "at least two pages", "one");
    }
    constexpr std::uint16_t kDeepest = 32;  // liblmdb's limit
    if (meta.depth > kDeepest) {
        bad(path, offset + kDepthAt, fmt::format("a B-tree of at most {} levels", kDeepest),
            fmt::format("{}", meta.depth));
    }
    return meta;
}

}  // namespace

LmdbMeta read_lmdb_meta(const File& file, const std::string& path) {
    const std::uint64_t size = file.info().size;
    const LmdbMeta first = read_page(file, size, 0, path);
    const LmdbMeta second = read_page(file, size, first.page_size, path);
    const LmdbMeta& newest = second.transaction > first.transaction ? second : first;
    if (second.page_size != first.page_size) {
        bad(path, first.page_size + kPageSizeAt, fmt::format("pages of {} bytes", first.page_size),
            fmt::format("{}", second.page_size));
    }
    // Taken after the pages, which a writer may have written anew with the file longer by then.
    const std::uint64_t now = file.info().size;
    constexpr std::uint64_t kNoPage = ~std::uint64_t{0};
    if (newest.root != kNoPage && newest.root >= now / newest.page_size) {
        bad(path, now, fmt::format("the B-tree's root in page {} of {} bytes", newest.root, newest.page_size),
            fmt::format("a file of {} bytes", now),
            "it has been cut short: copy it again, or have mdb_copy -c make a whole one of the original");
    }
    if (newest.entries > now / 8) {  // an entry's header takes eight bytes
        bad(path, kEntriesAt, fmt::format("as many entries as {} bytes have room for", now),
            fmt::format("{}", newest.entries));
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

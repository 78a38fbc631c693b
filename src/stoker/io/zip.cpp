// A zip file is read from its end: the end record gives the offset of the central directory, which gives those of the
// members. Archives with a prefix before the first member are not supported: neither NumPy nor torch writes them.
#include "stoker/io/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <numeric>

#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/io/deflate.h"
#include "stoker/io/gzip.h"

namespace stoker {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kCentralHeader = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50;
constexpr std::uint32_t kLocator64 = 0x07064b50;
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kCentralBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kLocator64Bytes = 20;
constexpr std::size_t kMaxComment = 65535;
constexpr std::uint32_t kIn64 = 0xffffffff;  // the value is in a zip64 record instead
constexpr std::uint16_t kExtra64 = 1;
constexpr std::uint16_t kEncrypted = 1;

// Little-endian. The caller has checked that `at` is within the bytes.
template <typename Number>
Number get(std::span<const std::byte> bytes, std::uint64_t at) {
    Number value{};
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}

struct Directory {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::uint64_t entries = 0;
    bool one_disk = true;
};

// Offset of the end record: the last one whose comment reaches to the end of the file.
std::optional<std::uint64_t> find_end(std::span<const std::byte> bytes) {
    if (bytes.size() < kEndBytes) {
        return std::nullopt;
    }
    const std::uint64_t last = bytes.size() - kEndBytes;
    for (std::uint64_t at = last + 1; at-- > last - std::min<std::uint64_t>(last, kMaxComment);) {
        if (get<std::uint32_t>(bytes, at) == kEnd && get<std::uint16_t>(bytes, at + 20) == last - at) {
            return at;
        }
    }
    return std::nullopt;
}

Directory read_end(std::span<const std::byte> bytes, std::uint64_t end) {
    Directory directory{.offset = get<std::uint32_t>(bytes, end + 16),
                        .size = get<std::uint32_t>(bytes, end + 12),
                        .entries = get<std::uint16_t>(bytes, end + 10),
                        .one_disk = get<std::uint32_t>(bytes, end + 4) == 0};
    const bool is_64 = end >= kLocator64Bytes && get<std::uint32_t>(bytes, end - kLocator64Bytes) == kLocator64;
    if (!is_64) {
        return directory;
    }
    const auto at = get<std::uint64_t>(bytes, end - kLocator64Bytes + 8);
    const std::uint64_t before = end - kLocator64Bytes;
    if (before < kEnd64Bytes || at > before - kEnd64Bytes || get<std::uint32_t>(bytes, at) != kEnd64) {
        throw DataError({.path = "", .offset = static_cast<std::int64_t>(before)},
                        {.where = "zip", .expected = "the place of a zip64 end record", .got = fmt::format("{}", at)});
    }
    directory.entries = get<std::uint64_t>(bytes, at + 32);
    directory.size = get<std::uint64_t>(bytes, at + 40);
    directory.offset = get<std::uint64_t>(bytes, at + 48);
    directory.one_disk = get<std::uint64_t>(bytes, at + 16) == 0;
    return directory;
}

// Replaces those of size, compressed size and header offset that did not fit into 32 bits. Returns false if the extra
// fields do not have them.
bool read_extra64(std::span<const std::byte> extra, ZipEntry& entry, std::uint64_t& header) {
    std::uint64_t* const values[] = {&entry.size, &entry.compressed_size, &header};
    const bool needed = std::ranges::any_of(values, [](const std::uint64_t* value) { return *value == kIn64; });
    while (needed && extra.size() >= 4) {
        const std::size_t size = get<std::uint16_t>(extra, 2);
        if (size > extra.size() - 4) {
            return false;
        }
        if (get<std::uint16_t>(extra, 0) == kExtra64) {
            std::span<const std::byte> field = extra.subspan(4, size);
            for (std::uint64_t* value : values) {
                if (*value == kIn64) {
                    if (field.size() < 8) {
                        return false;
                    }
                    *value = get<std::uint64_t>(field, 0);
                    field = field.subspan(8);
                }
            }
            return true;
        }
        extra = extra.subspan(4 + size);
    }
    return !needed;
}

std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t before = 0) {
    return static_cast<std::uint32_t>(
        ::crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<z_size_t>(bytes.size())));
}

}  // namespace

bool is_zip(std::span<const std::byte> bytes) {
    return bytes.size() >= 4 && get<std::uint32_t>(bytes, 0) == kLocalHeader;
}

ZipFile::ZipFile(const std::filesystem::path& path)
    : path_(path.string()), file_(path), map_(*file_), bytes_(map_.bytes()) {
    try {
        read_directory();
    } catch (const DataError& error) {
        throw error.located({.path = path_});
    }
}

ZipFile::ZipFile(std::span<const std::byte> bytes) : bytes_(bytes) {
    read_directory();
}

void ZipFile::refuse(std::uint64_t offset, std::string expected, std::string got) const {
    throw DataError({.path = path_, .offset = static_cast<std::int64_t>(offset)},
                    {.where = "zip", .expected = std::move(expected), .got = std::move(got)});
}

void ZipFile::unsupported(std::string expected, std::string got) const {
    throw Unsupported({.where = path_.empty() ? "zip" : path_, .expected = std::move(expected), .got = std::move(got)});
}

void ZipFile::read_directory() {
    const auto end = find_end(bytes_);
    if (!end) {
        refuse(0, "a zip file with its directory at the end", fmt::format("{} bytes without one", bytes_.size()));
    }
    const Directory directory = read_end(bytes_, *end);
    if (!directory.one_disk) {
        unsupported("a zip archive of one file", "a part of several");
    }
    if (directory.offset > *end || directory.size > *end - directory.offset ||
        directory.entries > directory.size / kCentralBytes) {
        refuse(*end, "a directory before its end record",
               fmt::format("{} entries in {} bytes at {}", directory.entries, directory.size, directory.offset));
    }
    std::vector<std::uint64_t> headers;
    std::uint64_t at = directory.offset;
    for (std::uint64_t i = 0; i < directory.entries; ++i) {
        Found found = read_entry(at, directory.offset + directory.size);
        place_data(found, at, directory.offset);
        at = found.next;
        if (found.entry.name.ends_with('/')) {
            ++folders_;
        } else {
            entries_.push_back(std::move(found.entry));
            headers.push_back(found.header);
        }
    }
    by_name_.resize(entries_.size());
    std::iota(by_name_.begin(), by_name_.end(), 0U);
    std::ranges::sort(by_name_, {}, [&](std::uint32_t i) -> std::string_view { return entries_[i].name; });
    check_entries(headers);
}

ZipFile::Found ZipFile::read_entry(std::uint64_t at, std::uint64_t stop) const {
    if (stop - at < kCentralBytes || get<std::uint32_t>(bytes_, at) != kCentralHeader) {
        refuse(at, "another entry of the directory", "other bytes");
    }
    const std::size_t name_bytes = get<std::uint16_t>(bytes_, at + 28);
    const std::size_t extra_bytes = get<std::uint16_t>(bytes_, at + 30);
    const std::size_t rest = name_bytes + extra_bytes + get<std::uint16_t>(bytes_, at + 32);
    if (stop - at - kCentralBytes < rest) {
        refuse(at, "an entry within the directory", fmt::format("{} bytes of it", kCentralBytes + rest));
    }
    const auto name = bytes_.subspan(at + kCentralBytes, name_bytes);
    Found found{.entry = {.name = std::string(reinterpret_cast<const char*>(name.data()), name.size()),
                          .method = get<std::uint16_t>(bytes_, at + 10),
                          .compressed_size = get<std::uint32_t>(bytes_, at + 20),
                          .size = get<std::uint32_t>(bytes_, at + 24),
                          .crc32 = get<std::uint32_t>(bytes_, at + 16)},
                .header = get<std::uint32_t>(bytes_, at + 42),
                .next = at + kCentralBytes + rest};
    if (!read_extra64(bytes_.subspan(at + kCentralBytes + name_bytes, extra_bytes), found.entry, found.header)) {
        refuse(at, "sizes of a zip64 entry", "no such extra field");
    }
    if ((get<std::uint16_t>(bytes_, at + 8) & kEncrypted) != 0) {
        unsupported("members that are not encrypted", fmt::format("{:?}", found.entry.name));
    }
    return found;
}

// Finds the data by the member's own header: its extra fields may differ in length from those in the directory.
void ZipFile::place_data(Found& found, std::uint64_t at, std::uint64_t directory) const {
    ZipEntry& entry = found.entry;
    if (directory < kLocalBytes || found.header > directory - kLocalBytes ||
        get<std::uint32_t>(bytes_, found.header) != kLocalHeader) {
        refuse(at, fmt::format("the place of {:?} before the directory", entry.name), fmt::format("{}", found.header));
    }
    const std::size_t name_bytes = get<std::uint16_t>(bytes_, found.header + 26);
    const std::size_t extra_bytes = get<std::uint16_t>(bytes_, found.header + 28);
    entry.offset = found.header + kLocalBytes + name_bytes + extra_bytes;
    if (entry.offset > directory || entry.compressed_size > directory - entry.offset) {
        refuse(at, fmt::format("{:?} to lie before the directory", entry.name),
               fmt::format("{} bytes at {}", entry.compressed_size, entry.offset));
    }
    if (!std::ranges::equal(bytes_.subspan(found.header + kLocalBytes, name_bytes), as_bytes(entry.name))) {
        refuse(found.header, fmt::format("the header of {:?}", entry.name), "another name");
    }
}

void ZipFile::check_entries(std::span<const std::uint64_t> headers) const {
    for (const ZipEntry& entry : entries_) {
        const std::uint64_t packed = entry.compressed_size;
        if (entry.method == ZipEntry::stored
                ? entry.size != packed
                : entry.size / kMaxGzipRatio + (entry.size % kMaxGzipRatio != 0) > packed) {
            refuse(entry.offset, fmt::format("a size of {:?} that {} bytes can have", entry.name, packed),
                   fmt::format("{}", entry.size));
        }
    }
    const auto same =
        std::ranges::adjacent_find(by_name_, {}, [&](std::uint32_t i) -> std::string_view { return entries_[i].name; });
    if (same != by_name_.end()) {
        refuse(entries_[*same].offset, "a name for each member", fmt::format("{:?} twice", entries_[*same].name));
    }
    std::vector<std::uint32_t> order(entries_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::sort(order, {}, [&](std::uint32_t i) { return headers[i]; });
    for (std::size_t i = 1; i < order.size(); ++i) {
        const ZipEntry& before = entries_[order[i - 1]];
        if (headers[order[i]] < before.offset + before.compressed_size) {
            refuse(headers[order[i]], "members one after the other",
                   fmt::format("{:?} within {:?}", entries_[order[i]].name, before.name));
        }
    }
}

const ZipEntry* ZipFile::find(std::string_view name) const {
    const auto name_of = [&](std::uint32_t i) -> std::string_view { return entries_[i].name; };
    const auto found = std::ranges::lower_bound(by_name_, name, {}, name_of);
    return found != by_name_.end() && name_of(*found) == name ? &entries_[*found] : nullptr;
}

std::span<const std::byte> ZipFile::stored(const ZipEntry& entry) const {
    if (entry.method != ZipEntry::stored) {
        unsupported(fmt::format("{:?} stored without compression", entry.name),
                    fmt::format("compression method {}", entry.method));
    }
    return bytes_.subspan(entry.offset, entry.size);
}

Buffer ZipFile::inflate(const ZipEntry& entry) const {
    const auto packed = bytes_.subspan(entry.offset, entry.compressed_size);
    if (entry.method != ZipEntry::stored && entry.method != ZipEntry::deflated) {
        unsupported(fmt::format("{:?} stored or deflated", entry.name),
                    fmt::format("compression method {}", entry.method));
    }
    with_memory_place(path_, [&] { require_memory(entry.size, entry.name); });
    Buffer out(entry.size);
    if (entry.method == ZipEntry::stored) {
        std::ranges::copy(packed, out.data());
    } else if (!stoker::inflate(packed, DeflateForm::raw, out.bytes())) {
        refuse(entry.offset, fmt::format("{} bytes of {:?} from a sound deflate stream", entry.size, entry.name),
               "damaged data or another size");
    }
    check_sum(entry, crc32_of(out.bytes()));
    return out;
}

// Reads instead of using the map: mapped pages that were used would count as this process's memory.
void ZipFile::check_stored(const ZipEntry& entry) const {
    constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
    std::uint32_t sum = 0;
    if (!file_) {
        sum = crc32_of(stored(entry));
    } else {
        Buffer piece;
        for (std::uint64_t done = 0; done < entry.size; done += piece.size()) {
            piece.resize(static_cast<std::size_t>(std::min(kPiece, entry.size - done)));
            file_->read(entry.offset + done, piece.bytes());
            sum = crc32_of(piece.bytes(), sum);
        }
    }
    check_sum(entry, sum);
}

void ZipFile::check_sum(const ZipEntry& entry, std::uint32_t found) const {
    if (found != entry.crc32) {
        refuse(entry.offset, fmt::format("{:?} with checksum {:08x}", entry.name, entry.crc32),
               fmt::format("{:08x}", found));
    }
}

}  // namespace stoker

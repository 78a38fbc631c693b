// Checks each header's checksum, and each size against the archive's before using it.
#include "stoker/formats/webdataset/tar_reader.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string_view>

#include "stoker/base/error.h"
#include "stoker/base/file.h"

namespace stoker {
namespace {

// Limit for the size of a long name or pax header; file systems' limits lead to far smaller ones.
constexpr std::uint64_t kMaxExtension = std::uint64_t{4} << 20;

struct Compressor {
    std::string_view magic;
    std::string_view name;
    std::string_view command;
};
constexpr std::array<Compressor, 5> kCompressors = {{{"\x1f\x8b", "gzip", "gunzip"},
                                                     {"\x28\xb5\x2f\xfd", "Zstandard", "unzstd"},
                                                     {"\xfd\x37zXZ", "xz", "unxz"},
                                                     {"BZh", "bzip2", "bunzip2"},
                                                     {"\x04\x22\x4d\x18", "lz4", "unlz4"}}};

bool is_zero(std::span<const std::byte> bytes) {
    return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

bool is_file(char type) {
    return type == '0' || type == '\0' || type == '7';  // 7: contiguous, treated as a regular file
}

// Links, devices, directories, FIFOs: no payload follows, whatever the size field says.
bool has_no_payload(char type) {
    return type >= '1' && type <= '6';
}

bool is_extension(char type) {
    return type == 'x' || type == 'X' || type == 'g' || type == 'L' || type == 'K';
}

}  // namespace

TarReader::TarReader(std::string path, std::uint64_t size, TarRead read, const TarWindow& window)
    : path_(std::move(path)), size_(size), read_(std::move(read)), window_(window) {
    const auto start = bytes({0, std::min<std::uint64_t>(size_, 6)});
    const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
    for (const Compressor& compressor : kCompressors) {
        if (text.starts_with(compressor.magic)) {
            throw Unsupported({.where = path_,
                               .expected = "a plain tar archive, whose samples can be read in any order",
                               .got = fmt::format("one compressed by {}", compressor.name),
                               .hint = fmt::format("decompress it with {}", compressor.command)});
        }
    }
}

bool TarReader::next(TarMember& member) {
    name_.clear();
    try {
        return advance(member);
    } catch (const DataError& error) {
        throw error.located(
            {.path = path_, .key = name_, .offset = static_cast<std::int64_t>(std::min(header_at_, size_))});
    }
}

bool TarReader::advance(TarMember& member) {
    PaxFields local;
    bool extended = false;
    while (true) {
        header_at_ = position_;
        if (at_end()) {
            if (extended) {
                throw DataError({}, {.where = "tar", .expected = "a member after its long name", .got = "the end"});
            }
            return false;
        }
        const TarHeader header = parse_tar_header(bytes({position_, kTarBlock}).first<kTarBlock>());
        name_ = header.name;
        position_ += kTarBlock;
        if (is_extension(header.type)) {
            read_extension(header, local);
            extended = header.type != 'g';
            continue;
        }
        if (make_member(header, local, member)) {
            return true;
        }
        local = {};
        extended = false;
    }
}

// True at two blocks of zeros, or at one block of zeros that ends the file.
bool TarReader::at_end() {
    check_range({position_, kTarBlock});
    if (!is_zero(bytes({position_, kTarBlock}))) {
        return false;
    }
    const std::uint64_t second = position_ + kTarBlock;
    if (size_ - second >= kTarBlock && !is_zero(bytes({second, kTarBlock}))) {
        throw DataError({}, {.where = "tar",
                             .expected = "two blocks of zeros at the archive's end",
                             .got = "one, and more data after it"});
    }
    return true;
}

// Reads a long name or a pax header, which precedes the header that it extends.
void TarReader::read_extension(const TarHeader& header, PaxFields& local) {
    if (header.size > kMaxExtension) {
        throw DataError({}, {.where = "tar",
                             .expected = fmt::format("a long name or pax header of at most {} bytes", kMaxExtension),
                             .got = fmt::format("{}", header.size)});
    }
    const ByteRange range = take_payload(header.size);
    const auto payload = bytes(range);
    if (header.type == 'L') {
        local.path = tar_text(payload);
    } else if (header.type == 'g') {
        parse_pax(payload, global_);
    } else if (header.type != 'K') {  // K: a long link target, not needed
        parse_pax(payload, local);
    }
}

bool TarReader::make_member(const TarHeader& header, const PaxFields& local, TarMember& member) {
    const auto& path = local.path ? local.path : global_.path;
    name_ = path ? *path : header.name;
    if (header.type == 'S' || header.type == 'M') {
        throw Unsupported({.where = fmt::format("{}: {}", path_, name_),
                           .expected = "files stored completely",
                           .got = header.type == 'S' ? "a sparse file" : "a part of a file, on several volumes",
                           .hint = "pack it again without tar's `--sparse` and `--multi-volume`"});
    }
    const bool directory = header.type == '5' || (header.type == '\0' && name_.ends_with('/'));
    if (has_no_payload(header.type) || directory) {
        checked_tar_name(name_, directory);
        return false;
    }
    const ByteRange payload = take_payload(local.size.value_or(global_.size.value_or(header.size)));
    average_ += (static_cast<double>(payload.size) - average_) / 8;
    if (!is_file(header.type)) {
        return false;
    }
    member.name = checked_tar_name(name_, false);
    member.header = header_at_;
    member.payload = payload;
    return true;
}

// Returns the range of the payload after the last header and moves position_ to the block after it.
ByteRange TarReader::take_payload(std::uint64_t size) {
    const ByteRange range{position_, size};
    check_range(range);
    position_ += (size + kTarBlock - 1) / kTarBlock * kTarBlock;
    return range;
}

void TarReader::check_range(const ByteRange& range) const {
    if (range.offset > size_ || range.size > size_ - range.offset) {
        throw DataError({}, {.where = "tar",
                             .expected = fmt::format("{} more bytes from {} on", range.size, range.offset),
                             .got = fmt::format("the end of the archive at {}", size_),
                             .hint = "it was cut short: copy it again"});
    }
}

std::span<const std::byte> TarReader::bytes(const ByteRange& range) {
    const bool buffered = range.offset >= begin_ && range.offset - begin_ <= buffer_.size() &&
                          range.size <= buffer_.size() - (range.offset - begin_);
    if (!buffered) {
        const bool skipping = average_ >= static_cast<double>(window_.skip_from);
        const std::uint64_t piece = std::max<std::uint64_t>(skipping ? window_.header : window_.sequential, range.size);
        buffer_.resize(static_cast<std::size_t>(std::min(piece, size_ - range.offset)));
        begin_ = range.offset;
        read_(begin_, buffer_.bytes());
    }
    return buffer_.bytes().subspan(static_cast<std::size_t>(range.offset - begin_),
                                   static_cast<std::size_t>(range.size));
}

}  // namespace stoker

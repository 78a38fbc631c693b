// Each header is checked by its sum, each size against the archive's before anything is done with it.
#include "stoker/formats/webdataset/tar.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string_view>

#include "stoker/base/error.h"
#include "stoker/base/file.h"

namespace stoker {
namespace {

// Of a long name or a pax header: beyond any that a file system's limits lead to.
constexpr std::uint64_t kMaxExtension = std::uint64_t{4} << 20;

struct Packer {
    std::string_view magic;
    std::string_view name;
    std::string_view command;
};
constexpr std::array<Packer, 5> kPackers = {{{"\x1f\x8b", "gzip", "gunzip"},
                                             {"\x28\xb5\x2f\xfd", "Zstandard", "unzstd"},
                                             {"\xfd\x37zXZ", "xz", "unxz"},
                                             {"BZh", "bzip2", "bunzip2"},
                                             {"\x04\x22\x4d\x18", "lz4", "unlz4"}}};

bool is_zero(std::span<const std::byte> bytes) {
    return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

bool is_file(char type) {
    return type == '0' || type == '\0' || type == '7';  // 7: contiguous, which nobody knows how to be
}

// Backend, devices, directories, FIFOs: whatever their size field says, no payload follows.
bool is_bare(char type) {
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
    for (const Packer& packer : kPackers) {
        if (text.starts_with(packer.magic)) {
            throw Unsupported({.where = path_,
                               .expected = "a plain tar archive, whose samples can be read in any order",
                               .got = fmt::format("one packed by {}", packer.name),
                               .hint = fmt::format("unpack it with {}", packer.command)});
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
            extend(header, local);
            extended = header.type != 'g';
            continue;
        }
        if (finish(header, local, member)) {
            return true;
        }
        local = {};
        extended = false;
    }
}

// Two blocks of zeros, or one where the file ends after it.
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

// A header about the next one: a long name, or a pax header.
void TarReader::extend(const TarHeader& header, PaxFields& local) {
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
    } else if (header.type != 'K') {  // a long link: links are not followed
        parse_pax(payload, local);
    }
}

bool TarReader::finish(const TarHeader& header, const PaxFields& local, TarMember& member) {
    const auto& path = local.path ? local.path : global_.path;
    name_ = path ? *path : header.name;
    if (header.type == 'S' || header.type == 'M') {
        throw Unsupported({.where = fmt::format("{}: {}", path_, name_),
                           .expected = "files stored whole",
                           .got = header.type == 'S' ? "a sparse one" : "a part of one, on several volumes",
                           .hint = "pack it again without --sparse and --multi-volume"});
    }
    const bool directory = header.type == '5' || (header.type == '\0' && name_.ends_with('/'));
    if (is_bare(header.type) || directory) {
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

// The payload after the header just read; the next header begins at the block after it.
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
    const bool held = range.offset >= begin_ && range.offset - begin_ <= buffer_.size() &&
                      range.size <= buffer_.size() - (range.offset - begin_);
    if (!held) {
        const bool skipping = average_ >= static_cast<double>(window_.skip);
        const std::uint64_t piece = std::max<std::uint64_t>(skipping ? window_.peek : window_.through, range.size);
        buffer_.resize(static_cast<std::size_t>(std::min(piece, size_ - range.offset)));
        begin_ = range.offset;
        read_(begin_, buffer_.bytes());
    }
    return buffer_.bytes().subspan(static_cast<std::size_t>(range.offset - begin_),
                                   static_cast<std::size_t>(range.size));
}

}  // namespace stoker

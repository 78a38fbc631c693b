// Header fields are octal digits at fixed offsets; a pax record starts with its own length in decimal.
#include "stoker/formats/webdataset/tar_writer.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string>

#include "stoker/base/error.h"
#include "stoker/base/file.h"

namespace stoker {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::size_t kNameRoom = 100;
constexpr std::uint64_t kMost = std::uint64_t{1} << 33;  // eleven octal digits
constexpr std::string_view kPaxName = "PaxHeaders/name";

using Block = std::array<char, kBlock>;

void put(Block& block, std::size_t at, std::string_view text) {
    std::ranges::copy(text, block.begin() + static_cast<std::ptrdiff_t>(at));
}

bool needs_pax(std::string_view name) {
    return name.size() > kNameRoom || std::ranges::any_of(name, [](char c) { return c < 0x20 || c > 0x7e; });
}

Block header(std::string_view name, std::uint64_t size, char type) {
    Block block = {};
    put(block, 0, name.substr(0, kNameRoom));
    put(block, 100, "0000644");
    put(block, 108, "0000000");
    put(block, 116, "0000000");
    put(block, 124, fmt::format("{:011o}", size));
    put(block, 136, "00000000000");
    put(block, 148, "        ");  // the checksum counts its own field as spaces
    block[156] = type;
    put(block, 257, "ustar");
    put(block, 263, "00");
    unsigned sum = 0;
    for (const char c : block) {
        sum += static_cast<unsigned char>(c);
    }
    put(block, 148, fmt::format("{:06o}", sum));
    block[154] = '\0';
    return block;
}

// "23 path=a/long/name.jpg\n": the number is the length of the record, including itself.
std::string pax_record(std::string_view name) {
    const std::size_t rest = std::string_view(" path=\n").size() + name.size();
    std::size_t digits = 1;
    while (fmt::formatted_size("{}", rest + digits) > digits) {
        ++digits;
    }
    return fmt::format("{} path={}\n", rest + digits, name);
}

void pad(AppendFile& file) {
    constexpr std::array<std::byte, kBlock> kZeros = {};
    file.append(std::span(kZeros).first((kBlock - file.size() % kBlock) % kBlock));
}

std::uint64_t padded(std::uint64_t bytes) {
    return (bytes + kBlock - 1) / kBlock * kBlock;
}

}  // namespace

void append_tar_member(AppendFile& file, std::string_view name, std::span<const std::span<const std::byte>> pieces) {
    std::uint64_t size = 0;
    for (const auto piece : pieces) {
        size += piece.size();
    }
    if (name.empty() || name.find('\0') != std::string_view::npos || size >= kMost) {
        throw InvalidArgument({.where = "tar",
                               .expected = "a member with a name and less than 8 GiB",
                               .got = fmt::format("{} bytes of name, {} bytes", name.size(), size)});
    }
    std::string plain(name);
    if (needs_pax(name)) {
        const std::string record = pax_record(name);
        const Block pax = header(kPaxName, record.size(), 'x');
        file.append(std::as_bytes(std::span(pax)));
        file.append(as_bytes(record));
        pad(file);
        std::ranges::replace_if(
            plain, [](char c) { return c < 0x20 || c > 0x7e; }, '_');
    }
    const Block block = header(plain, size, '0');
    file.append(std::as_bytes(std::span(block)));
    for (const auto piece : pieces) {
        file.append(piece);
    }
    pad(file);
}

std::uint64_t tar_member_size(std::string_view name, std::uint64_t bytes) {
    const std::uint64_t pax = needs_pax(name) ? kBlock + padded(pax_record(name).size()) : 0;
    return pax + kBlock + padded(bytes);
}

void append_tar_end(AppendFile& file) {
    constexpr std::array<std::byte, 2 * kBlock> kZeros = {};
    file.append(kZeros);
}

}  // namespace stoker

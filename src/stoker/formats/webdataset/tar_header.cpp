// Numbers in a header are octal text or, for larger values, big-endian binary with the first bit set.
#include "stoker/formats/webdataset/tar_reader.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/parse_number.h"

namespace stoker {
namespace {

using Block = std::span<const std::byte, kTarBlock>;

struct Field {
    std::size_t begin;
    std::size_t size;
};
constexpr Field kName = {0, 100};
constexpr Field kSize = {124, 12};
constexpr Field kChecksum = {148, 8};
constexpr Field kType = {156, 1};
constexpr Field kMagic = {257, 6};
constexpr Field kPrefix = {345, 155};

std::span<const std::byte> field_of(Block block, Field field) {
    return block.subspan(field.begin, field.size);
}

constexpr const char* kDamaged = "the archive is damaged: copy it again, or leave this shard out";

[[noreturn]] void refuse(std::string expected, std::string got, std::string name = "", std::string hint = kDamaged) {
    throw DataError({.path = {}, .key = std::move(name)},
                    {.where = "tar", .expected = std::move(expected), .got = std::move(got), .hint = std::move(hint)});
}

std::uint64_t parse_binary(std::span<const std::byte> field, const char* what) {
    if (field[0] != std::byte{0x80}) {  // 0xff: negative
        refuse(fmt::format("{} that is not negative, below 2^63", what), "another value");
    }
    std::uint64_t value = 0;
    for (const std::byte byte : field.subspan(1)) {
        if (value >> 55 != 0) {
            refuse(fmt::format("{} below 2^63", what), "a larger value");
        }
        value = value << 8 | std::to_integer<std::uint64_t>(byte);
    }
    return value;
}

// Parses octal digits, which spaces may surround and a space or zero byte ends. An empty field is 0.
std::uint64_t parse_field(std::span<const std::byte> field, const char* what) {
    if ((field[0] & std::byte{0x80}) != std::byte{0}) {
        return parse_binary(field, what);
    }
    std::string_view text = as_text(field);
    text = text.substr(0, text.find('\0'));
    const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
    text = text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
    const auto value = text.empty() ? 0 : parse_number<std::uint64_t>(text, 8);
    if (!value) {
        refuse(fmt::format("octal digits as {}", what), fmt::format("\"{}\"", text));
    }
    return *value;
}

// Checks the sum of all bytes, with the checksum field counted as spaces. Some old programs summed signed bytes.
void verify_checksum(Block block) {
    const std::uint64_t stored = parse_field(field_of(block, kChecksum), "a checksum");
    std::int64_t unsigned_sum = 0;
    std::int64_t signed_sum = 0;
    for (std::size_t i = 0; i < block.size(); ++i) {
        const bool in_checksum = i - kChecksum.begin < kChecksum.size;
        const auto byte = in_checksum ? std::uint8_t{' '} : std::to_integer<std::uint8_t>(block[i]);
        unsigned_sum += byte;
        signed_sum += static_cast<std::int8_t>(byte);
    }
    if (stored != static_cast<std::uint64_t>(unsigned_sum) && stored != static_cast<std::uint64_t>(signed_sum)) {
        refuse(fmt::format("a tar header with the checksum {}", unsigned_sum), fmt::format("{}", stored));
    }
}

void parse_record(std::string_view key, std::string_view value, PaxFields& fields) {
    if (key.starts_with("GNU.sparse.")) {
        throw Unsupported({.where = "tar",
                           .expected = "files stored completely",
                           .got = "a sparse file",
                           .hint = "pack it again without tar's `--sparse`"});
    }
    if (key == "path") {
        fields.path = value.empty() ? std::nullopt : std::optional(std::string(value));
    } else if (key == "size") {
        fields.size = parse_number<std::uint64_t>(value);
        if (!value.empty() && fields.size.value_or(~std::uint64_t{0}) >> 63 != 0) {
            refuse("a decimal size below 2^63 in a pax header", fmt::format("\"{}\"", value.substr(0, 40)));
        }
    }
}

}  // namespace

std::string tar_text(std::span<const std::byte> field) {
    const std::string_view text = as_text(field);
    return std::string(text.substr(0, text.find('\0')));
}

TarHeader parse_tar_header(Block block) {
    verify_checksum(block);
    TarHeader header{.name = tar_text(field_of(block, kName)),
                     .size = parse_field(field_of(block, kSize), "a size"),
                     .type = static_cast<char>(block[kType.begin])};
    // GNU headers, which have another magic, store times in place of the POSIX prefix.
    if (as_text(field_of(block, kMagic)) == std::string_view("ustar\0", 6)) {
        const std::string prefix = tar_text(field_of(block, kPrefix));
        header.name = prefix.empty() ? header.name : prefix + "/" + header.name;
    }
    return header;
}

void parse_pax(std::span<const std::byte> records, PaxFields& fields) {
    std::string_view rest = as_text(records);
    while (!rest.empty() && rest.front() != '\0') {  // some writers pad with zeros
        std::size_t length = 0;
        const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
        const auto digits = static_cast<std::size_t>(end - rest.data());
        const bool fits = error == std::errc{} && length > digits + 1 && length <= rest.size() && rest[digits] == ' ' &&
                          rest[length - 1] == '\n';
        const std::string_view record = fits ? rest.substr(digits + 1, length - digits - 2) : std::string_view();
        const std::size_t equals = record.find('=');
        if (equals == std::string_view::npos) {
            refuse("pax records such as \"25 path=cat/001.jpg\"", fmt::format("\"{}\"", rest.substr(0, 40)));
        }
        parse_record(record.substr(0, equals), record.substr(equals + 1), fields);
        rest.remove_prefix(length);
    }
}

std::string checked_tar_name(std::string_view name, bool directory) {
    const auto unsafe = [&](const char* got) {
        refuse("names of files below the archive's own folder", got, std::string(name), "such a file is never written");
    };
    if (name.empty() || name.front() == '/' || name.find('\0') != std::string_view::npos) {
        unsafe(name.empty() ? "an empty one" : name.front() == '/' ? "an absolute one" : "one with a zero byte");
    }
    std::string checked;
    std::string_view rest = name;
    if (directory) {
        rest = rest.substr(0, rest.find_last_not_of('/') + 1);
    }
    for (std::size_t end = 0; end != std::string_view::npos;) {
        end = rest.find('/');
        const std::string_view component = rest.substr(0, end);
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
        if (component.empty() || component == "..") {
            unsafe(component.empty() ? "one with an empty component" : "one with \"..\"");
        }
        if (component != ".") {
            checked += (checked.empty() ? "" : "/");
            checked += component;
        }
    }
    if (checked.empty() && !directory) {
        unsafe("one without a file's name");
    }
    return checked;
}

}  // namespace stoker

// Parses the header block of a tar member (v7, POSIX ustar and GNU) and the records of a pax header. The DataErrors
// have no path and offset; TarReader adds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace stoker {

inline constexpr std::size_t kTarBlock = 512;

struct TarHeader {
    std::string name;  // prefix and name, unchecked
    std::uint64_t size = 0;
    char type = '0';
};

// Throws DataError for a wrong checksum or a malformed number.
TarHeader parse_tar_header(std::span<const std::byte, kTarBlock> block);

// Values of a pax header. They replace those of the next member's header; an empty one replaces nothing.
struct PaxFields {
    std::optional<std::string> path;
    std::optional<std::uint64_t> size;
};

// Parses the records of one pax header, such as "25 path=cat/001.jpg\n", into `fields`. A record without a value clears
// its field; unknown records are skipped. Throws DataError for damage, Unsupported for a sparse file.
void parse_pax(std::span<const std::byte> records, PaxFields& fields);

// A text field or payload, cut at its first zero byte.
std::string tar_text(std::span<const std::byte> field);

// Returns the name without its "." components. Throws DataError for a name that could lead out of the target folder:
// one that is empty, starts with a slash, or has an empty component, ".." or a zero byte. A directory's name may end in
// a slash, and may be just ".", which gives an empty result.
std::string checked_tar_name(std::string_view name, bool directory);

}  // namespace stoker

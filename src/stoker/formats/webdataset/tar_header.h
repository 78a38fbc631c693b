// One header block of a tar archive, 512 bytes, and the records of a pax header: old v7, POSIX ustar and GNU alike.
// Their DataErrors lack path and offset, which TarReader knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace stoker {

inline constexpr std::size_t kTarBlock = 512;

// As far as a reader of files needs it.
struct TarHeader {
    std::string name;  // prefix and name, as they stand
    std::uint64_t size = 0;
    char type = '0';
};

// Throws DataError where the checksum or a number is wrong.
TarHeader parse_tar_header(std::span<const std::byte, kTarBlock> block);

// What a pax header says of the member after it; a field that is empty leaves the member's own header as it is.
struct PaxFields {
    std::optional<std::string> path;
    std::optional<std::uint64_t> size;
};

// Adds the records of one pax header: "25 path=cat/001.jpg\n", one after the other. A record without a value takes a
// field back; unknown ones are passed over. Throws DataError for damage, Unsupported for a sparse file's map.
void parse_pax(std::span<const std::byte> records, PaxFields& fields);

// A text field or payload up to its first zero byte.
std::string tar_text(std::span<const std::byte> field);

// The name with components "." left out. Throws DataError for one that is empty, has an empty component or "..", or
// begins with a slash: it could lead out of the folder that the archive is unpacked into. A directory's name may end
// in a slash, and be nothing but ".", which gives an empty one.
std::string checked_tar_name(std::string_view name, bool directory);

}  // namespace stoker

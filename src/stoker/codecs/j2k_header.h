// The markers of a JPEG 2000 codestream up to its end, without its pixels. OpenJPEG allocates for each tile, precinct
// and code block that the headers promise; here these are counted first, and compared with the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace stoker {

// A codestream (.j2k), or a file of boxes (.jp2, .jpx).
bool is_j2k(std::span<const std::byte> bytes);
bool is_jp2(std::span<const std::byte> bytes);

struct J2kHeader {
    int height = 0;
    int width = 0;
    int channels = 0;  // as stored: a palette's index is one
    int bits = 0;      // of the deepest channel
    // What OpenJPEG allocates to decode it.
    std::uint64_t memory = 0;
};

// Throws DataError for damaged headers, for a file that ends early or lacks a tile, and for more tiles, precincts or
// layers than its bytes can hold.
J2kHeader read_j2k_header(std::span<const std::byte> bytes);

}  // namespace stoker

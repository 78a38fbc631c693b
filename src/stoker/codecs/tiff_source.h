// Bytes in memory as a file of libtiff.
#pragma once

#include <tiffio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace stoker {

struct TiffSource {
    std::span<const std::byte> bytes;
    std::uint64_t at = 0;
    std::array<char, 200> error = {};  // the first that libtiff reports
};

// Null for bytes that are not a TIFF. `source` must outlive the result. Throws std::bad_alloc.
TIFF* open_tiff(TiffSource& source);

}  // namespace stoker

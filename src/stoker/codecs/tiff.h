// TIFF, with libtiff: a page in its own type and with all of its bands. Encoded images of this kind are
// arrays: they do not decode to RGB rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/dtype.h"

namespace stoker {

// True if the bytes begin as a TIFF or BigTIFF of either byte order.
bool is_tiff(std::span<const std::byte> bytes);

struct TiffImage {
    int height = 0;
    int width = 0;
    int channels = 0;
    // As stored, but: 1, 2 and 4 bits become uint8 from 0 to 255, int8 becomes int16, integers of 32 bits and float16
    // become float32.
    DType dtype = DType::uint8;
    int bits = 8;  // of a channel, as stored
};

struct TiffOptions {
    bool indices = false;    // a mask: grey levels and palette indices as stored; other images are refused
    int channels = 0;        // 3: grey becomes three equal channels; 1: three become one, as by Pillow's convert("L")
    std::uint64_t page = 0;  // its offset in the file, as tiff_pages gives it; 0: the first
};

// Reads the header only. Throws DataError for damaged bytes and for types, sizes and colours that are not read.
TiffImage read_tiff_header(std::span<const std::byte> bytes, const TiffOptions& options = {});

// The places of the pages that are not thumbnails and masks of others; at most `most`. Throws what read_tiff_header
// throws.
std::vector<std::uint64_t> tiff_pages(std::span<const std::byte> bytes, std::size_t most = 65535);

// Decodes to (H, W, C) in `out`, turned upright as the tag Orientation says. Palettes and YCbCr become RGB; white is 0
// in no image of up to 8 bits; transparency is left out, and other bands are kept. Throws DataError, and MemoryError
// for an image that does not fit into memory.
TiffImage decode_tiff(std::span<const std::byte> bytes, Buffer& out, const TiffOptions& options = {});

}  // namespace stoker

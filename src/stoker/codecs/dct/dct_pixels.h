// Crops of dct records and JPEGs (dct_crop.h, jpeg_crop.h) to RGB pixels: inverse DCT to planes of samples, upsampling,
// colour conversion. Here are the parameters and the reference implementation of dct_pixels_cuda.
#pragma once

#include <cstdint>
#include <type_traits>

#include "stoker/codecs/dct/dct_crop.h"

namespace stoker {

// The offsets of a crop, its samples and its pixels, in bytes from the beginning of one block of memory.
struct DctCropPlace {
    std::uint64_t crop = 0;     // 0: none
    std::uint64_t samples = 0;  // of DctCrop::samples bytes; a multiple of 8
    std::uint64_t pixels = 0;   // (box.height, box.width, 3)
    std::uint64_t damaged = 0;  // set to 1 if a JPEG's scan is not as its entry points say
};
static_assert(sizeof(DctCropPlace) == 32 && std::is_trivially_copyable_v<DctCropPlace>);

struct DctCropBatch {
    std::byte* memory = nullptr;
    DctCropPlace* places = nullptr;  // (n)
    int n = 0;
    // The largest numbers of one crop.
    std::uint32_t rows = 0;
    std::uint32_t pieces = 0;
    std::uint32_t pixels = 0;
};

// In host memory. The pixels equal those of DctDecoder, or JpegDecoder. A piece of a scan that is damaged has grey
// blocks.
void dct_pixels(const DctCropBatch& batch);

}  // namespace stoker

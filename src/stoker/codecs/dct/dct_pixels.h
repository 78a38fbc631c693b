// Cuts of dct records (dct_cut.h) to RGB pixels: inverse DCT to planes of samples, upsampling, colour conversion. Here
// are the parameters and the slow twin of dct_pixels_cuda.
#pragma once

#include <cstdint>
#include <type_traits>

#include "stoker/codecs/dct/dct_cut.h"

namespace stoker {

// Where a cut lies, and where its samples and pixels go: bytes from the beginning of one block of memory.
struct CutPlace {
    std::uint64_t cut = 0;      // 0: there is no cut
    std::uint64_t samples = 0;  // of DctCut::samples bytes; a multiple of 8
    std::uint64_t pixels = 0;   // (box.height, box.width, 3)
};
static_assert(sizeof(CutPlace) == 24 && std::is_trivially_copyable_v<CutPlace>);

struct CutBatch {
    std::byte* memory = nullptr;
    const CutPlace* places = nullptr;  // (n)
    int n = 0;
    // The largest numbers of one cut.
    std::uint32_t rows = 0;
    std::uint32_t pixels = 0;
};

// In host memory. The pixels equal those of DctDecoder.
void dct_pixels(const CutBatch& batch);

}  // namespace stoker

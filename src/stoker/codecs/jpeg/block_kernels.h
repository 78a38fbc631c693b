// The inner loops from coefficients to RGB rows, one set for each instruction set. All sets return the same bits as
// libjpeg-turbo: its accurate integer inverse DCT ("islow"), its smooth ("fancy") chroma upsampling and its colour
// conversion. Internal to codecs/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stoker {

struct BlockKernels {
    const char* name;  // plain, avx2, avx512

    // `count` blocks (count, 8, 8), quantised, natural order, to 8 rows of 8 * count samples. Reads and writes
    // groups of 4 blocks, so both buffers must have room for the next multiple of 4.
    void (*inverse_dct)(const std::int16_t* blocks, const std::uint16_t* quant, int count, std::uint8_t* out,
                        std::ptrdiff_t stride);

    // The upsample functions may read and write up to 64 bytes beyond the end.
    // Twice as wide: in[-1] ... in[count] to 2 * count samples.
    void (*upsample_h2)(const std::uint8_t* in, int count, std::uint8_t* out);
    // Twice as wide and high: from the nearer and the farther of the two adjacent input rows.
    void (*upsample_h2v2)(const std::uint8_t* near, const std::uint8_t* far, int count, std::uint8_t* out);
    // Twice as high. `bias` is 1 for the upper of the two output rows, 2 for the lower.
    void (*upsample_v2)(const std::uint8_t* near, const std::uint8_t* far, int bias, int count, std::uint8_t* out);

    // Planes to interleaved (count, 3). Writes exactly 3 * count bytes; reads up to 64 bytes beyond the end.
    void (*ycc_to_rgb)(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr, int count,
                       std::uint8_t* rgb);
    void (*grey_to_rgb)(const std::uint8_t* grey, int count, std::uint8_t* rgb);
};

extern const BlockKernels kPlainBlockKernels;

// All sets that this processor supports, slowest first. best_block_kernels() is the last.
std::span<const BlockKernels> block_kernels();
const BlockKernels& best_block_kernels();

// The vector sets, in one file each, compiled for that instruction set. Only on x86-64.
extern const BlockKernels kAvx2BlockKernels;
extern const BlockKernels kAvx512BlockKernels;

// Inverse DCTs to 4 x 4, 2 x 2 or 1 x 1 samples per block: they decode an image at 1/2, 1/4 or 1/8 of its size, and the
// cost falls with the number of samples.
// `count` blocks (count, 8, 8), quantised, natural order, to `side` rows of side * count samples; side is 1, 2 or 4.
// Transforms each block's lowest side x side frequencies with the inverse DCT of that size, which is an ideal low-pass
// filter: the higher frequencies are dropped.
void scaled_inverse_dct(const std::int16_t* blocks, const std::uint16_t* quant, int side, int count, std::uint8_t* out,
                        std::ptrdiff_t stride);

}  // namespace stoker

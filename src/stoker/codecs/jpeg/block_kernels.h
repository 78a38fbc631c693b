// The inner loops from coefficients to RGB rows, once per instruction set. Every set gives libjpeg-turbo's
// bits: its accurate integer inverse DCT ("islow"), its smooth ("fancy") chroma upsampling, its colour
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
    // whole groups of 4 blocks: both sides have room for the next multiple of 4.
    void (*inverse_dct)(const std::int16_t* blocks, const std::uint16_t* quant, int count, std::uint8_t* out,
                        std::ptrdiff_t stride);

    // Twice as wide: in[-1] ... in[count] to 2 * count samples. These three may read and write up to 64 bytes more.
    void (*upsample_h2)(const std::uint8_t* in, int count, std::uint8_t* out);
    // Twice as wide and high: the row, and the one next to it on the output row's side.
    void (*upsample_h2v2)(const std::uint8_t* near, const std::uint8_t* far, int count, std::uint8_t* out);
    // Twice as high. `bias` is 1 for the upper of the two output rows, 2 for the lower.
    void (*upsample_v2)(const std::uint8_t* near, const std::uint8_t* far, int bias, int count, std::uint8_t* out);

    // Planes to interleaved (count, 3); writes 3 * count bytes and no more. Reads up to 64 bytes more.
    void (*ycc_to_rgb)(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr, int count,
                       std::uint8_t* rgb);
    void (*grey_to_rgb)(const std::uint8_t* grey, int count, std::uint8_t* rgb);
};

extern const BlockKernels kPlainBlockKernels;

// All sets that this processor runs, slowest first, and the one that is used: the last.
std::span<const BlockKernels> block_kernels();
const BlockKernels& best_block_kernels();

// The sets for vector instructions; each is a file compiled for that set, present on x86-64 alone.
extern const BlockKernels kAvx2BlockKernels;
extern const BlockKernels kAvx512BlockKernels;

}  // namespace stoker

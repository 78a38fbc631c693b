// The kernels in plain C++, for every processor; the tests compare the vector sets with them. The inverse DCT is the
// algorithm of Loeffler, Ligtenberg and Moschytz (ICASSP 1989) in integers with 13 fraction bits, and two more bits
// between the passes, as in libjpeg's jidctint.
#include "stoker/codecs/jpeg/block_kernels.h"

#include <algorithm>

#include "stoker/base/cpu_features.h"

namespace stoker {
namespace {

constexpr int kFraction = 13;
constexpr int kPassBits = 2;

// Values larger than any encoder writes wrap as in vector registers: in 32 bits, and in 16 bits if two inputs are added
// first. So damaged files give the same pixels on every processor.
std::uint32_t wide(std::int32_t value) {
    return static_cast<std::uint32_t>(value);
}

std::int32_t add16(std::int32_t a, std::int32_t b) {
    return static_cast<std::int16_t>(a + b);
}

// One inverse DCT of eight values, with the outputs rounded by `shift` bits.
template <typename In, typename Out>
void inverse_dct_8(In in, int shift, Out out) {
    const auto product = [](std::int32_t value, std::int32_t factor) { return wide(value) * wide(factor); };
    const std::uint32_t even2 = product(in(2), 4433) - product(in(6), 10704);
    const std::uint32_t even3 = product(in(2), 10703) + product(in(6), 4433);
    const std::uint32_t sum = product(add16(in(0), in(4)), 1 << kFraction);
    const std::uint32_t difference = product(add16(in(0), -in(4)), 1 << kFraction);
    const std::uint32_t even[4] = {sum + even3, difference + even2, difference - even2, sum - even3};

    const std::int32_t odd73 = add16(in(7), in(3));
    const std::int32_t odd51 = add16(in(5), in(1));
    const std::uint32_t z3 = product(odd51, 9633) - product(odd73, 6436);
    const std::uint32_t z4 = product(odd73, 9633) + product(odd51, 6437);
    const std::uint32_t odd[4] = {
        product(in(1), 4926) - product(in(7), 7373) + z4, product(in(3), 4177) - product(in(5), 20995) + z3,
        z4 - product(in(5), 4176) - product(in(3), 20995), z3 - product(in(7), 4927) - product(in(1), 7373)};
    const std::uint32_t half = 1U << (shift - 1);
    for (int i = 0; i < 4; ++i) {
        out(i, static_cast<std::int32_t>(even[i] + odd[i] + half) >> shift);
        out(7 - i, static_cast<std::int32_t>(even[i] - odd[i] + half) >> shift);
    }
}

std::int32_t saturate16(std::int32_t value) {
    return std::clamp(value, -32768, 32767);
}

// If rows 1 to 7 are zero, libjpeg-turbo's vector code takes a shortcut: each row is the first row times 4, in 16 bits
// that wrap instead of saturating. The results differ only for values that images do not have, but files may contain.
bool has_first_row_only(const std::int16_t* block) {
    return std::all_of(block + 8, block + 64, [](std::int16_t value) { return value == 0; });
}

void inverse_dct_block(const std::int16_t* block, const std::uint16_t* quant, std::uint8_t* out,
                       std::ptrdiff_t stride) {
    std::int32_t passed[64];
    const bool shortcut = has_first_row_only(block);
    for (int u = 0; u < 8; ++u) {
        const auto in = [&](int v) {
            return std::int32_t{static_cast<std::int16_t>(block[8 * v + u] * quant[8 * v + u])};
        };
        inverse_dct_8(in, kFraction - kPassBits, [&](int v, std::int32_t value) {
            passed[8 * v + u] = shortcut ? static_cast<std::int16_t>(value) : saturate16(value);
        });
    }
    for (int v = 0; v < 8; ++v) {
        inverse_dct_8([&](int u) { return passed[8 * v + u]; }, kFraction + kPassBits + 3,
                      [&](int u, std::int32_t value) {
                          out[v * stride + u] = static_cast<std::uint8_t>(std::clamp(value + 128, 0, 255));
                      });
    }
}

void inverse_dct(const std::int16_t* blocks, const std::uint16_t* quant, int count, std::uint8_t* out,
                 std::ptrdiff_t stride) {
    for (int i = 0; i < count; ++i) {
        inverse_dct_block(blocks + std::ptrdiff_t{64} * i, quant, out + std::ptrdiff_t{8} * i, stride);
    }
}

void upsample_h2(const std::uint8_t* in, int count, std::uint8_t* out) {
    for (int i = 0; i < count; ++i) {
        out[2 * i] = static_cast<std::uint8_t>((3 * in[i] + in[i - 1] + 1) >> 2);
        out[2 * i + 1] = static_cast<std::uint8_t>((3 * in[i] + in[i + 1] + 2) >> 2);
    }
}

void upsample_h2v2(const std::uint8_t* near, const std::uint8_t* far, int count, std::uint8_t* out) {
    const auto column = [&](int i) { return 3 * near[i] + far[i]; };
    for (int i = 0; i < count; ++i) {
        out[2 * i] = static_cast<std::uint8_t>((3 * column(i) + column(i - 1) + 8) >> 4);
        out[2 * i + 1] = static_cast<std::uint8_t>((3 * column(i) + column(i + 1) + 7) >> 4);
    }
}

void upsample_v2(const std::uint8_t* near, const std::uint8_t* far, int bias, int count, std::uint8_t* out) {
    for (int i = 0; i < count; ++i) {
        out[i] = static_cast<std::uint8_t>((3 * near[i] + far[i] + bias) >> 2);
    }
}

// ITU-T T.871 (JFIF) with 16 fraction bits: 1.402, 0.34414, 0.71414, 1.772.
void ycc_to_rgb(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr, int count, std::uint8_t* rgb) {
    const auto limit = [](int value) { return static_cast<std::uint8_t>(std::clamp(value, 0, 255)); };
    constexpr int kHalf = 1 << 15;
    for (int i = 0; i < count; ++i) {
        const int blue = cb[i] - 128;
        const int red = cr[i] - 128;
        rgb[3 * i] = limit(y[i] + ((91881 * red + kHalf) >> 16));
        rgb[3 * i + 1] = limit(y[i] + ((-22554 * blue - 46802 * red + kHalf) >> 16));
        rgb[3 * i + 2] = limit(y[i] + ((116130 * blue + kHalf) >> 16));
    }
}

void grey_to_rgb(const std::uint8_t* grey, int count, std::uint8_t* rgb) {
    for (int i = 0; i < count; ++i) {
        rgb[3 * i] = rgb[3 * i + 1] = rgb[3 * i + 2] = grey[i];
    }
}

std::vector<BlockKernels> find_kernels() {
    std::vector<BlockKernels> sets = {kPlainBlockKernels};
#if defined(__x86_64__)
    if (cpu_features().avx2) {
        sets.push_back(kAvx2BlockKernels);
    }
    if (cpu_features().avx512_vbmi2) {
        sets.push_back(kAvx512BlockKernels);
    }
#endif
    return sets;
}

}  // namespace

const BlockKernels kPlainBlockKernels = {"plain",     inverse_dct, upsample_h2, upsample_h2v2,
                                         upsample_v2, ycc_to_rgb,  grey_to_rgb};

std::span<const BlockKernels> block_kernels() {
    static const std::vector<BlockKernels> sets = find_kernels();
    return sets;
}

const BlockKernels& best_block_kernels() {
    return block_kernels().back();
}

}  // namespace stoker

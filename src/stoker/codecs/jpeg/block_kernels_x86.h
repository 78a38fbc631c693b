// The vector kernels, written once for registers of any width. Each including file is compiled for one instruction set
// and defines a `Set`: the register type and the operations that differ. Everything here has internal linkage, so that
// the linker cannot mix code of two instruction sets. Internal to codecs/.
#pragma once

#include <immintrin.h>

#include "stoker/codecs/jpeg/block_kernels.h"

namespace stoker {
namespace {

// Byte-shuffle tables that interleave three planes.
// For output register k of three, each of `lanes` bytes: byte j is channel (k * lanes + j) % 3 of pixel
// (k * lanes + j) / 3. `pixel[k][c][j]` is that pixel if the channel is c, else `kNone`.
template <int lanes>
struct RgbShuffle {
    static constexpr std::uint8_t kNone = 0x80;  // pshufb writes 0 there
    alignas(64) std::uint8_t pixel[3][3][lanes];

    constexpr RgbShuffle() : pixel() {
        for (int k = 0; k < 3; ++k) {
            for (int j = 0; j < lanes; ++j) {
                const int place = k * lanes + j;
                for (int c = 0; c < 3; ++c) {
                    pixel[k][c][j] = place % 3 == c ? static_cast<std::uint8_t>(place / 3) : kNone;
                }
            }
        }
    }
};

// ---- inverse DCT ----
// Register k holds row k of several blocks side by side: 8 values of 16 bits per block.

// Returns a * x + b * y in 32 bits for each pair (a, b) of 16-bit values in `pairs`.
template <typename Set>
typename Set::Reg pair_sum(typename Set::Reg pairs, int x, int y) {
    return Set::multiply_pairs(pairs, Set::set32((y << 16) | (x & 0xffff)));
}

template <typename Set, int shift>
struct HalfPass {  // the lower or the upper half of each row, widened to 32 bits
    using Reg = typename Set::Reg;
    Reg out[8];

    // in26: pairs (row 2, row 6), etc.; `sum` and `difference`: row 0 + row 4 and row 0 - row 4, in the upper 16 bits
    HalfPass(Reg in26, Reg sum, Reg difference, Reg in71, Reg in53, Reg odd73_51) {
        const Reg even2 = pair_sum<Set>(in26, 4433, -10704);
        const Reg even3 = pair_sum<Set>(in26, 10703, 4433);
        sum = Set::shift_right32(sum, 16 - 13);
        difference = Set::shift_right32(difference, 16 - 13);
        const Reg even[4] = {Set::add32(sum, even3), Set::add32(difference, even2), Set::sub32(difference, even2),
                             Set::sub32(sum, even3)};
        const Reg z3 = pair_sum<Set>(odd73_51, -6436, 9633);
        const Reg z4 = pair_sum<Set>(odd73_51, 9633, 6437);
        const Reg odd[4] = {
            Set::add32(pair_sum<Set>(in71, -7373, 4926), z4), Set::add32(pair_sum<Set>(in53, -20995, 4177), z3),
            Set::add32(pair_sum<Set>(in53, -4176, -20995), z4), Set::add32(pair_sum<Set>(in71, -4927, -7373), z3)};
        const Reg half = Set::set32(1 << (shift - 1));
        for (int i = 0; i < 4; ++i) {
            const Reg rounded = Set::add32(even[i], half);
            out[i] = Set::shift_right32(Set::add32(rounded, odd[i]), shift);
            out[7 - i] = Set::shift_right32(Set::sub32(rounded, odd[i]), shift);
        }
    }
};

template <typename Set, int shift>
void inverse_dct_pass(typename Set::Reg (&rows)[8]) {
    using Reg = typename Set::Reg;
    const Reg zero = Set::set32(0);
    const Reg sum = Set::add16(rows[0], rows[4]);
    const Reg difference = Set::sub16(rows[0], rows[4]);
    const Reg odd73 = Set::add16(rows[7], rows[3]);
    const Reg odd51 = Set::add16(rows[5], rows[1]);
    const HalfPass<Set, shift> low(Set::low16(rows[2], rows[6]), Set::low16(zero, sum), Set::low16(zero, difference),
                                   Set::low16(rows[7], rows[1]), Set::low16(rows[5], rows[3]),
                                   Set::low16(odd73, odd51));
    const HalfPass<Set, shift> high(Set::high16(rows[2], rows[6]), Set::high16(zero, sum),
                                    Set::high16(zero, difference), Set::high16(rows[7], rows[1]),
                                    Set::high16(rows[5], rows[3]), Set::high16(odd73, odd51));
    for (int i = 0; i < 8; ++i) {
        rows[i] = Set::pack32(low.out[i], high.out[i]);
    }
}

// Transposes each block of 8 x 8 values.
template <typename Set>
void transpose_blocks(typename Set::Reg (&rows)[8]) {
    using Reg = typename Set::Reg;
    for (int round = 0; round < 3; ++round) {
        Reg next[8];
        for (int i = 0; i < 4; ++i) {
            next[2 * i] = Set::low16(rows[i], rows[i + 4]);
            next[2 * i + 1] = Set::high16(rows[i], rows[i + 4]);
        }
        for (int i = 0; i < 8; ++i) {
            rows[i] = next[i];
        }
    }
}

template <typename Set>
void inverse_dct(const std::int16_t* blocks, const std::uint16_t* quant, int count, std::uint8_t* out,
                 std::ptrdiff_t stride) {
    using Reg = typename Set::Reg;
    Reg factors[8];
    for (int v = 0; v < 8; ++v) {
        factors[v] = Set::repeat128(quant + 8 * v);
    }
    for (int first = 0; first < count; first += Set::kBlocks) {
        Reg rows[8];
        Set::load_rows(blocks + std::ptrdiff_t{64} * first, rows);
        for (int v = 0; v < 8; ++v) {
            rows[v] = Set::multiply16(rows[v], factors[v]);
        }
        if (Set::any_beyond_14_bits(rows[0])) {  // see has_first_row_only in block_kernels.cpp
            const int left = count - first < Set::kBlocks ? count - first : Set::kBlocks;
            kPlainBlockKernels.inverse_dct(blocks + std::ptrdiff_t{64} * first, quant, left,
                                           out + std::ptrdiff_t{8} * first, stride);
            continue;
        }
        inverse_dct_pass<Set, 13 - 2>(rows);
        transpose_blocks<Set>(rows);
        inverse_dct_pass<Set, 13 + 2 + 3>(rows);
        transpose_blocks<Set>(rows);
        Set::store_rows(rows, out + std::ptrdiff_t{8} * first, stride);
    }
}

// ---- chroma upsampling ----

template <typename Set>
void upsample_h2(const std::uint8_t* in, int count, std::uint8_t* out) {
    using Reg = typename Set::Reg;
    const Reg one = Set::set16(1);
    const Reg two = Set::set16(2);
    for (int i = 0; i < count; i += Set::kLanes16) {
        const Reg left = Set::widen(in + i - 1);
        const Reg center = Set::multiply16(Set::widen(in + i), Set::set16(3));
        const Reg right = Set::widen(in + i + 1);
        Set::store_pairs(out + 2 * i, Set::shift_right16(Set::add16(Set::add16(center, left), one), 2),
                         Set::shift_right16(Set::add16(Set::add16(center, right), two), 2));
    }
}

template <typename Set>
void upsample_h2v2(const std::uint8_t* near, const std::uint8_t* far, int count, std::uint8_t* out) {
    using Reg = typename Set::Reg;
    const Reg three = Set::set16(3);
    const auto column = [&](int i) {
        return Set::add16(Set::multiply16(Set::widen(near + i), three), Set::widen(far + i));
    };
    for (int i = 0; i < count; i += Set::kLanes16) {
        const Reg center = Set::multiply16(column(i), three);
        Set::store_pairs(out + 2 * i,
                         Set::shift_right16(Set::add16(Set::add16(center, column(i - 1)), Set::set16(8)), 4),
                         Set::shift_right16(Set::add16(Set::add16(center, column(i + 1)), Set::set16(7)), 4));
    }
}

template <typename Set>
void upsample_v2(const std::uint8_t* near, const std::uint8_t* far, int bias, int count, std::uint8_t* out) {
    using Reg = typename Set::Reg;
    for (int i = 0; i < count; i += Set::kLanes16) {
        const Reg sum = Set::add16(Set::multiply16(Set::widen(near + i), Set::set16(3)), Set::widen(far + i));
        Set::store_narrow(out + i, Set::shift_right16(Set::add16(sum, Set::set16(bias)), 2));
    }
}

// ---- colour ----

// round(x * factor / 65536) for |x| <= 128: twice x, the upper half of the product, then half of that, rounded up.
template <typename Set>
typename Set::Reg scaled(typename Set::Reg twice, int factor) {
    return Set::shift_right16(Set::add16(Set::multiply_high16(twice, Set::set16(factor)), Set::set16(1)), 1);
}

// Converts Set::kLanes16 pixels. The 16-bit results may exceed [0, 255]; Set::narrow saturates them.
template <typename Set>
struct Rgb16 {
    using Reg = typename Set::Reg;
    Reg red, green, blue;

    Rgb16(Reg y, Reg cb, Reg cr) {
        const Reg center = Set::set16(128);
        cb = Set::sub16(cb, center);
        cr = Set::sub16(cr, center);
        const Reg cb2 = Set::add16(cb, cb);
        const Reg cr2 = Set::add16(cr, cr);
        // 91881 = 65536 + 26345 and 116130 = 2 * 65536 - 14942
        red = Set::add16(y, Set::add16(cr, scaled<Set>(cr2, 26345)));
        blue = Set::add16(y, Set::add16(cb2, scaled<Set>(cb2, -14942)));
        // -46802 = -65536 + 18734; the sum of two products needs 32 bits
        const Reg half = Set::set32(1 << 15);
        const Reg low = Set::add32(pair_sum<Set>(Set::low16(cb, cr), -22554, 18734), half);
        const Reg high = Set::add32(pair_sum<Set>(Set::high16(cb, cr), -22554, 18734), half);
        const Reg sum = Set::pack32(Set::shift_right32(low, 16), Set::shift_right32(high, 16));
        green = Set::add16(y, Set::sub16(sum, cr));
    }
};

template <typename Set>
void ycc_to_rgb(const std::uint8_t* y, const std::uint8_t* cb, const std::uint8_t* cr, int count, std::uint8_t* rgb) {
    constexpr int kStep = 2 * Set::kLanes16;
    for (int i = 0; i < count; i += kStep) {
        const Rgb16<Set> first(Set::widen(y + i), Set::widen(cb + i), Set::widen(cr + i));
        const int next = i + Set::kLanes16;
        const Rgb16<Set> second(Set::widen(y + next), Set::widen(cb + next), Set::widen(cr + next));
        Set::store_rgb(rgb + std::ptrdiff_t{3} * i, Set::narrow(first.red, second.red),
                       Set::narrow(first.green, second.green), Set::narrow(first.blue, second.blue), count - i);
    }
}

template <typename Set>
void grey_to_rgb(const std::uint8_t* grey, int count, std::uint8_t* rgb) {
    constexpr int kStep = 2 * Set::kLanes16;
    for (int i = 0; i < count; i += kStep) {
        const typename Set::Reg value = Set::load(grey + i);
        Set::store_rgb(rgb + std::ptrdiff_t{3} * i, value, value, value, count - i);
    }
}

template <typename Set>
constexpr BlockKernels kernels_of(const char* name) {
    return {name,
            inverse_dct<Set>,
            upsample_h2<Set>,
            upsample_h2v2<Set>,
            upsample_v2<Set>,
            ycc_to_rgb<Set>,
            grey_to_rgb<Set>};
}

}  // namespace
}  // namespace stoker

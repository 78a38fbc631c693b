// The block kernels for AVX-512 with VBMI: four blocks, or 32 values of 16 bits, at a time. CMake compiles this file
// for that instruction set; it is called only on processors that have it.
#if defined(__GNUC__) && !defined(__clang__)  // GCC 12 warns of undefined registers in its own header
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include "stoker/codecs/jpeg/block_kernels_x86.h"

namespace stoker {
namespace {

// Indices for a two-register permutation: red in the first register, green in the second; blue is merged with a mask.
struct RgbPermutation {
    alignas(64) std::uint8_t index[3][64] = {};
    std::uint64_t is_blue[3] = {};

    constexpr RgbPermutation() {
        const RgbShuffle<64> shuffle;
        for (int k = 0; k < 3; ++k) {
            for (int j = 0; j < 64; ++j) {
                for (int c = 0; c < 3; ++c) {
                    if (const std::uint8_t pixel = shuffle.pixel[k][c][j]; pixel != RgbShuffle<64>::kNone) {
                        index[k][j] = static_cast<std::uint8_t>(c == 1 ? pixel + 64 : pixel);
                        is_blue[k] |= c == 2 ? std::uint64_t{1} << j : 0;
                    }
                }
            }
        }
    }
};
constexpr RgbPermutation kPermutation;

struct Avx512 {
    using Reg = __m512i;
    static constexpr int kBlocks = 4;
    static constexpr int kLanes16 = 32;

    static Reg load(const void* from) { return _mm512_loadu_si512(from); }
    static Reg set16(int value) { return _mm512_set1_epi16(static_cast<short>(value)); }
    static Reg set32(int value) { return _mm512_set1_epi32(value); }
    static Reg repeat128(const void* from) {
        return _mm512_broadcast_i32x4(_mm_loadu_si128(static_cast<const __m128i*>(from)));
    }
    static Reg widen(const std::uint8_t* from) {
        return _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    }

    static Reg add16(Reg a, Reg b) { return _mm512_add_epi16(a, b); }
    static Reg sub16(Reg a, Reg b) { return _mm512_sub_epi16(a, b); }
    static Reg add32(Reg a, Reg b) { return _mm512_add_epi32(a, b); }
    static Reg sub32(Reg a, Reg b) { return _mm512_sub_epi32(a, b); }
    static Reg multiply16(Reg a, Reg b) { return _mm512_mullo_epi16(a, b); }
    static Reg multiply_high16(Reg a, Reg b) { return _mm512_mulhi_epi16(a, b); }
    static Reg multiply_pairs(Reg a, Reg b) { return _mm512_madd_epi16(a, b); }
    static Reg shift_right16(Reg a, unsigned bits) { return _mm512_srai_epi16(a, bits); }
    static Reg shift_right32(Reg a, unsigned bits) { return _mm512_srai_epi32(a, bits); }
    static Reg low16(Reg a, Reg b) { return _mm512_unpacklo_epi16(a, b); }
    static Reg high16(Reg a, Reg b) { return _mm512_unpackhi_epi16(a, b); }
    static Reg pack32(Reg a, Reg b) { return _mm512_packs_epi32(a, b); }
    static Reg narrow(Reg a, Reg b) { return in_order(_mm512_packus_epi16(a, b)); }

    // Whether a value is below -8192 or above 8191.
    static bool any_beyond_14_bits(Reg a) {
        return _mm512_cmpgt_epu16_mask(_mm512_add_epi16(a, set16(8192)), set16(16383)) != 0;
    }

    static void load_rows(const std::int16_t* blocks, Reg (&rows)[8]) {
        for (int half = 0; half < 2; ++half) {  // rows 0-3, rows 4-7
            const std::int16_t* at = blocks + 32 * half;
            const Reg a = load(at);
            const Reg b = load(at + 64);
            const Reg c = load(at + 128);
            const Reg d = load(at + 192);
            const Reg ab01 = _mm512_shuffle_i64x2(a, b, 0x44);
            const Reg ab23 = _mm512_shuffle_i64x2(a, b, 0xEE);
            const Reg cd01 = _mm512_shuffle_i64x2(c, d, 0x44);
            const Reg cd23 = _mm512_shuffle_i64x2(c, d, 0xEE);
            rows[4 * half] = _mm512_shuffle_i64x2(ab01, cd01, 0x88);
            rows[4 * half + 1] = _mm512_shuffle_i64x2(ab01, cd01, 0xDD);
            rows[4 * half + 2] = _mm512_shuffle_i64x2(ab23, cd23, 0x88);
            rows[4 * half + 3] = _mm512_shuffle_i64x2(ab23, cd23, 0xDD);
        }
    }

    static void store_rows(const Reg (&rows)[8], std::uint8_t* out, std::ptrdiff_t stride) {
        for (int i = 0; i < 8; i += 2) {
            const Reg centered = in_order(_mm512_packs_epi16(rows[i], rows[i + 1]));
            const Reg samples = _mm512_xor_si512(centered, _mm512_set1_epi8(-128));
            store256(out + i * stride, _mm512_castsi512_si256(samples));
            store256(out + (i + 1) * stride, _mm512_extracti64x4_epi64(samples, 1));
        }
    }

    static void store_pairs(std::uint8_t* out, Reg even, Reg odd) {
        _mm512_storeu_si512(out, _mm512_or_si512(even, _mm512_slli_epi16(odd, 8)));
    }
    static void store_narrow(std::uint8_t* out, Reg values) { store256(out, _mm512_cvtepi16_epi8(values)); }

    static void store_rgb(std::uint8_t* out, Reg red, Reg green, Reg blue, int pixels) {
        const int bytes = 3 * pixels;
        for (int k = 0; k < 3 && bytes > 64 * k; ++k) {
            const Reg index = load(kPermutation.index[k]);
            Reg mixed = _mm512_permutex2var_epi8(red, index, green);
            mixed = _mm512_mask_permutexvar_epi8(mixed, kPermutation.is_blue[k], index, blue);
            const int left = bytes - 64 * k;
            if (left >= 64) {
                _mm512_storeu_si512(out + 64 * k, mixed);
            } else {
                _mm512_mask_storeu_epi8(out + 64 * k, (std::uint64_t{1} << left) - 1, mixed);
            }
        }
    }

  private:
    // Packing works within 128-bit quarters; taking even 64-bit words first, then odd ones, restores the order.
    static Reg in_order(Reg packed) {
        return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), packed);
    }
    static void store256(std::uint8_t* out, __m256i value) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), value);
    }
};

}  // namespace

const BlockKernels kAvx512BlockKernels = kernels_of<Avx512>("avx512");

}  // namespace stoker

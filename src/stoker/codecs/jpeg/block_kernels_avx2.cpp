// The block kernels for AVX2: two blocks, or 16 values of 16 bits, at a time. CMake compiles this file for AVX2;
// it is called only on processors that have it.
#include <cstring>

#include "stoker/codecs/jpeg/block_kernels_x86.h"

namespace stoker {
namespace {

constexpr RgbShuffle<16> kShuffle;

struct Avx2 {
    using Reg = __m256i;
    static constexpr int kBlocks = 2;
    static constexpr int kLanes16 = 16;

    static Reg load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
    static __m128i load128(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
    static Reg set16(int value) { return _mm256_set1_epi16(static_cast<short>(value)); }
    static Reg set32(int value) { return _mm256_set1_epi32(value); }
    static Reg repeat128(const void* from) { return _mm256_broadcastsi128_si256(load128(from)); }
    static Reg widen(const std::uint8_t* from) { return _mm256_cvtepu8_epi16(load128(from)); }

    static Reg add16(Reg a, Reg b) { return _mm256_add_epi16(a, b); }
    static Reg sub16(Reg a, Reg b) { return _mm256_sub_epi16(a, b); }
    static Reg add32(Reg a, Reg b) { return _mm256_add_epi32(a, b); }
    static Reg sub32(Reg a, Reg b) { return _mm256_sub_epi32(a, b); }
    static Reg multiply16(Reg a, Reg b) { return _mm256_mullo_epi16(a, b); }
    static Reg multiply_high16(Reg a, Reg b) { return _mm256_mulhi_epi16(a, b); }
    static Reg multiply_pairs(Reg a, Reg b) { return _mm256_madd_epi16(a, b); }
    static Reg shift_right16(Reg a, int bits) { return _mm256_srai_epi16(a, bits); }
    static Reg shift_right32(Reg a, int bits) { return _mm256_srai_epi32(a, bits); }
    static Reg low16(Reg a, Reg b) { return _mm256_unpacklo_epi16(a, b); }
    static Reg high16(Reg a, Reg b) { return _mm256_unpackhi_epi16(a, b); }
    static Reg pack32(Reg a, Reg b) { return _mm256_packs_epi32(a, b); }
    static Reg narrow(Reg a, Reg b) { return _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xD8); }

    // Whether a value is below -8192 or above 8191.
    static bool any_beyond_14_bits(Reg a) {
        const Reg excess = _mm256_subs_epu16(_mm256_add_epi16(a, set16(8192)), set16(16383));
        return _mm256_testz_si256(excess, excess) == 0;
    }

    static void load_rows(const std::int16_t* blocks, Reg (&rows)[8]) {
        for (int i = 0; i < 4; ++i) {
            const Reg a = load(blocks + 16 * i);
            const Reg b = load(blocks + 64 + 16 * i);
            rows[2 * i] = _mm256_permute2x128_si256(a, b, 0x20);
            rows[2 * i + 1] = _mm256_permute2x128_si256(a, b, 0x31);
        }
    }

    static void store_rows(const Reg (&rows)[8], std::uint8_t* out, std::ptrdiff_t stride) {
        for (int i = 0; i < 8; i += 2) {
            const Reg centered = _mm256_packs_epi16(rows[i], rows[i + 1]);
            const Reg samples = _mm256_xor_si256(_mm256_permute4x64_epi64(centered, 0xD8), _mm256_set1_epi8(-128));
            store128(out + i * stride, _mm256_castsi256_si128(samples));
            store128(out + (i + 1) * stride, _mm256_extracti128_si256(samples, 1));
        }
    }

    static void store_pairs(std::uint8_t* out, Reg even, Reg odd) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_or_si256(even, _mm256_slli_epi16(odd, 8)));
    }
    static void store_narrow(std::uint8_t* out, Reg values) {
        store128(out, _mm256_castsi256_si128(narrow(values, values)));
    }

    static void store_rgb(std::uint8_t* out, Reg red, Reg green, Reg blue, int pixels) {
        if (pixels < 32) {
            std::uint8_t whole[96];
            store_rgb(whole, red, green, blue, 32);
            std::memcpy(out, whole, 3 * static_cast<std::size_t>(pixels));
            return;
        }
        store_rgb16(out, _mm256_castsi256_si128(red), _mm256_castsi256_si128(green), _mm256_castsi256_si128(blue));
        store_rgb16(out + 48, _mm256_extracti128_si256(red, 1), _mm256_extracti128_si256(green, 1),
                    _mm256_extracti128_si256(blue, 1));
    }

  private:
    static void store128(std::uint8_t* out, __m128i value) { _mm_storeu_si128(reinterpret_cast<__m128i*>(out), value); }
    static void store_rgb16(std::uint8_t* out, __m128i red, __m128i green, __m128i blue) {
        for (int k = 0; k < 3; ++k) {
            const auto part = [&](int c, __m128i plane) {
                return _mm_shuffle_epi8(plane, load128(kShuffle.pixel[k][c]));
            };
            store128(out + 16 * k, _mm_or_si128(part(0, red), _mm_or_si128(part(1, green), part(2, blue))));
        }
    }
};

}  // namespace

const BlockKernels kAvx2BlockKernels = kernels_of<Avx2>("avx2");

}  // namespace stoker

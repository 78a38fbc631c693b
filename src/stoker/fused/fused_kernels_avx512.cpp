// The kernels for AVX-512: 16 values at a time, tiles of 6 x 64. CMake compiles this file with the AVX-512 flags; it
// runs only on processors that support them.
#if defined(__GNUC__) && !defined(__clang__)  // GCC 12 warns about intentionally undefined registers in its own header
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include "stoker/fused/tile_kernels.h"

namespace stoker {
namespace {

struct Avx512 {
    using Reg = __m512;
    static constexpr int kLanes = 16;
    static constexpr int kTileRows = 6;
    static constexpr int kTileRegs = 4;

    static Reg load(const float* from) { return _mm512_loadu_ps(from); }
    static void store(float* to, Reg value) { _mm512_storeu_ps(to, value); }
    static Reg load_part(const float* from, int part) {
        return part == kLanes ? load(from) : _mm512_maskz_loadu_ps(mask(part), from);
    }
    static void store_part(float* to, Reg value, int part) {
        if (part == kLanes) {
            store(to, value);
        } else {
            _mm512_mask_storeu_ps(to, mask(part), value);
        }
    }
    static Reg set(float value) { return _mm512_set1_ps(value); }

    static Reg add(Reg a, Reg b) { return _mm512_add_ps(a, b); }
    static Reg sub(Reg a, Reg b) { return _mm512_sub_ps(a, b); }
    static Reg mul(Reg a, Reg b) { return _mm512_mul_ps(a, b); }
    static Reg div(Reg a, Reg b) { return _mm512_div_ps(a, b); }
    static Reg sqrt(Reg a) { return _mm512_sqrt_ps(a); }
    static Reg fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_ps(a, b, c); }
    static Reg max(Reg a, Reg b) { return _mm512_max_ps(a, b); }
    static Reg min(Reg a, Reg b) { return _mm512_min_ps(a, b); }
    static Reg abs(Reg a) { return _mm512_abs_ps(a); }
    static Reg with_sign(Reg magnitude, Reg sign) {
        const __m512i bit = _mm512_set1_epi32(static_cast<int>(0x80000000U));  // (sign & bit) | (magnitude & ~bit)
        return _mm512_castsi512_ps(
            _mm512_ternarylogic_epi32(_mm512_castps_si512(magnitude), _mm512_castps_si512(sign), bit, 0xD8));
    }
    static Reg where_less(Reg a, Reg b, Reg yes, Reg no) {
        return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
    }
    static Reg add_exponent(Reg value, Reg shifted) {
        const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
        return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(value), exponent));
    }

    // Interleaves pairs, then fours within 128-bit lanes, then the lanes.
    static void transpose(Reg (&rows)[16]) {
        Reg fours[16];
#pragma GCC unroll 16
        for (int i = 0; i < 16; i += 4) {
            const Reg low01 = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
            const Reg high01 = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
            const Reg low23 = _mm512_unpacklo_ps(rows[i + 2], rows[i + 3]);
            const Reg high23 = _mm512_unpackhi_ps(rows[i + 2], rows[i + 3]);
            fours[i] = low_halves(low01, low23);
            fours[i + 1] = high_halves(low01, low23);
            fours[i + 2] = low_halves(high01, high23);
            fours[i + 3] = high_halves(high01, high23);
        }
#pragma GCC unroll 16
        for (int c = 0; c < 4; ++c) {
            const Reg a02 = _mm512_shuffle_f32x4(fours[c], fours[4 + c], 0x88);
            const Reg a13 = _mm512_shuffle_f32x4(fours[c], fours[4 + c], 0xDD);
            const Reg b02 = _mm512_shuffle_f32x4(fours[8 + c], fours[12 + c], 0x88);
            const Reg b13 = _mm512_shuffle_f32x4(fours[8 + c], fours[12 + c], 0xDD);
            rows[c] = _mm512_shuffle_f32x4(a02, b02, 0x88);
            rows[4 + c] = _mm512_shuffle_f32x4(a13, b13, 0x88);
            rows[8 + c] = _mm512_shuffle_f32x4(a02, b02, 0xDD);
            rows[12 + c] = _mm512_shuffle_f32x4(a13, b13, 0xDD);
        }
    }

  private:
    static __mmask16 mask(int part) {
        return static_cast<__mmask16>((1U << part) - 1);
    }
    static Reg low_halves(Reg a, Reg b) {
        return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
    }
    static Reg high_halves(Reg a, Reg b) {
        return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
    }
};

}  // namespace

const FusedKernels kAvx512FusedKernels = fused_kernels_of<Avx512>("avx512");

}  // namespace stoker

// The kernels for AVX2 with FMA: 8 values at a time, tiles of 6 x 16. CMake compiles this file with -mavx2 -mfma; it
// runs only on processors that support both.
#include <immintrin.h>

#include "stoker/fused/tile_kernels.h"

namespace stoker {
namespace {

// The 8 values from index 8 - n are a mask for n lanes.
alignas(32) constexpr int kMasks[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

struct Avx2 {
    using Reg = __m256;
    static constexpr int kLanes = 8;
    static constexpr int kTileRows = 6;
    static constexpr int kTileRegs = 2;

    static Reg load(const float* from) { return _mm256_loadu_ps(from); }
    static void store(float* to, Reg value) { _mm256_storeu_ps(to, value); }
    static Reg load_part(const float* from, int part) {
        return part == kLanes ? load(from) : _mm256_maskload_ps(from, mask(part));
    }
    static void store_part(float* to, Reg value, int part) {
        if (part == kLanes) {
            store(to, value);
        } else {
            _mm256_maskstore_ps(to, mask(part), value);
        }
    }
    static Reg set(float value) { return _mm256_set1_ps(value); }

    static Reg add(Reg a, Reg b) { return _mm256_add_ps(a, b); }
    static Reg sub(Reg a, Reg b) { return _mm256_sub_ps(a, b); }
    static Reg mul(Reg a, Reg b) { return _mm256_mul_ps(a, b); }
    static Reg div(Reg a, Reg b) { return _mm256_div_ps(a, b); }
    static Reg sqrt(Reg a) { return _mm256_sqrt_ps(a); }
    static Reg fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_ps(a, b, c); }
    static Reg max(Reg a, Reg b) { return _mm256_max_ps(a, b); }
    static Reg min(Reg a, Reg b) { return _mm256_min_ps(a, b); }
    static Reg abs(Reg a) { return _mm256_andnot_ps(set(-0.0f), a); }
    static Reg with_sign(Reg magnitude, Reg sign) {
        return _mm256_or_ps(abs(magnitude), _mm256_and_ps(set(-0.0f), sign));
    }
    static Reg where_less(Reg a, Reg b, Reg yes, Reg no) {
        return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
    }
    static Reg add_exponent(Reg value, Reg shifted) {
        const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
        return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(value), exponent));
    }

    // Interleaves pairs, then fours within 128-bit lanes, then the lanes.
    static void transpose(Reg (&rows)[8]) {
        Reg fours[8];
        for (int i = 0; i < 8; i += 4) {
            const Reg low01 = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
            const Reg high01 = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
            const Reg low23 = _mm256_unpacklo_ps(rows[i + 2], rows[i + 3]);
            const Reg high23 = _mm256_unpackhi_ps(rows[i + 2], rows[i + 3]);
            fours[i] = _mm256_shuffle_ps(low01, low23, 0x44);
            fours[i + 1] = _mm256_shuffle_ps(low01, low23, 0xEE);
            fours[i + 2] = _mm256_shuffle_ps(high01, high23, 0x44);
            fours[i + 3] = _mm256_shuffle_ps(high01, high23, 0xEE);
        }
        for (int c = 0; c < 4; ++c) {
            rows[c] = _mm256_permute2f128_ps(fours[c], fours[4 + c], 0x20);
            rows[4 + c] = _mm256_permute2f128_ps(fours[c], fours[4 + c], 0x31);
        }
    }

  private:
    static __m256i mask(int part) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMasks + kLanes - part));
    }
};

}  // namespace

const FusedKernels kAvx2FusedKernels = fused_kernels_of<Avx2>("avx2");

}  // namespace stoker

// The kernels for AVX2 and AVX-512. Only functions marked with STOKER_AVX2 or STOKER_AVX512 use these instructions, and
// they are called only on processors that have them. Sums are exact 32-bit integers, as in the plain set.
// GCC 12 warns of undefined registers in its own AVX-512 header.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include "stoker/base/cpu_features.h"
#include "stoker/base/float16.h"
#include "stoker/ops/kernels.h"
#include "stoker/ops/normalize_loops.h"

#define STOKER_AVX2 [[gnu::target("avx2")]]
#define STOKER_F16C [[gnu::target("avx2,f16c")]]
#define STOKER_AVX512 [[gnu::target("avx2,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")]]

namespace stoker {
namespace {

constexpr std::int32_t kHalf = 1 << (kResizeBits - 1);

// Returns the inputs of the k-th tap: in transposed columns or in the k-th row.
struct ColumnTaps {
    const std::uint8_t* first;
    std::ptrdiff_t step;
    const std::uint8_t* operator()(int k) const { return first + k * step; }
};

struct RowTaps {
    const std::uint8_t* const* rows;
    std::size_t offset;
    const std::uint8_t* operator()(int k) const { return rows[k] + offset; }
};

// sum<groups>: groups * kLanes adjacent outputs that share their weights.
struct Avx2 {
    template <int groups, typename Taps>
    STOKER_AVX2 static void sum(Taps taps, const std::int32_t* weights, int count, std::uint8_t* out) {
        __m256i low[groups];
        __m256i high[groups];
        for (int g = 0; g < groups; ++g) {
            low[g] = high[g] = _mm256_set1_epi32(kHalf);
        }
        for (int k = 0; k < count; ++k) {
            const std::uint8_t* in = taps(k);
            const __m256i weight = _mm256_set1_epi32(weights[k]);
            for (int g = 0; g < groups; ++g) {
                const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + g * kLanes));
                const __m256i left = _mm256_cvtepu8_epi32(bytes);
                const __m256i right = _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8));
                low[g] = _mm256_add_epi32(low[g], _mm256_mullo_epi32(left, weight));
                high[g] = _mm256_add_epi32(high[g], _mm256_mullo_epi32(right, weight));
            }
        }
        for (int g = 0; g < groups; ++g) {
            // Packing works within 128-bit halves; 0xD8 restores the order of the four quarters.
            const __m256i words = _mm256_permute4x64_epi64(
                _mm256_packus_epi32(_mm256_srai_epi32(low[g], kResizeBits), _mm256_srai_epi32(high[g], kResizeBits)),
                0xD8);
            _mm_storeu_si128(reinterpret_cast<__m128i*>(out + g * kLanes),
                             _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
        }
    }
};

struct Avx512 {
    template <int groups, typename Taps>
    STOKER_AVX512 static void sum(Taps taps, const std::int32_t* weights, int count, std::uint8_t* out) {
        __m512i sums[groups];
        for (int g = 0; g < groups; ++g) {
            sums[g] = _mm512_set1_epi32(kHalf);
        }
        for (int k = 0; k < count; ++k) {
            const std::uint8_t* in = taps(k);
            const __m512i weight = _mm512_set1_epi32(weights[k]);
            for (int g = 0; g < groups; ++g) {
                const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + g * kLanes));
                sums[g] = _mm512_add_epi32(sums[g], _mm512_mullo_epi32(_mm512_cvtepu8_epi32(bytes), weight));
            }
        }
        for (int g = 0; g < groups; ++g) {
            const __m512i pixels = _mm512_max_epi32(_mm512_srai_epi32(sums[g], kResizeBits), _mm512_setzero_si512());
            _mm_storeu_si128(reinterpret_cast<__m128i*>(out + g * kLanes), _mm512_cvtusepi32_epi8(pixels));
        }
    }
};

template <typename Set, int channels>
void columns_of(const std::uint8_t* columns, const ResizeAxis& axis, std::uint8_t* out) {
    constexpr std::ptrdiff_t kStep = channels * kLanes;
    const std::int32_t* weights = axis.weights.data();
    for (const ResizeTaps& taps : axis.taps) {
        const std::uint8_t* in = columns + (taps.first - axis.taps.front().first) * kStep;
        Set::template sum<channels>(ColumnTaps{in, kStep}, weights, taps.count, out);
        weights += axis.stride;
        out += kStep;
    }
}

template <typename Set>
void resize_columns(const std::uint8_t* columns, const ResizeAxis& axis, int channels, std::uint8_t* out) {
    switch (channels) {
        case 1:
            return columns_of<Set, 1>(columns, axis, out);
        case 2:
            return columns_of<Set, 2>(columns, axis, out);
        case 3:
            return columns_of<Set, 3>(columns, axis, out);
        default:
            return columns_of<Set, 4>(columns, axis, out);
    }
}

template <typename Set>
void resize_rows(const std::uint8_t* const* rows, const std::int32_t* weights, int count, std::uint8_t* out,
                 std::size_t bytes) {
    if (bytes < kLanes) {
        kPlainKernels.resize_rows(rows, weights, count, out, bytes);
        return;
    }
    std::size_t i = 0;
    for (; i + 4 * kLanes <= bytes; i += 4 * kLanes) {
        Set::template sum<4>(RowTaps{rows, i}, weights, count, out + i);
    }
    for (; i + kLanes <= bytes; i += kLanes) {
        Set::template sum<1>(RowTaps{rows, i}, weights, count, out + i);
    }
    if (i < bytes) {  // the last group overlaps the one before
        i = bytes - kLanes;
        Set::template sum<1>(RowTaps{rows, i}, weights, count, out + i);
    }
}

STOKER_AVX2 void normalize_avx2(const std::uint8_t* pixels, std::size_t count, int channels,
                                const NormalizeFactors& factors, Layout layout, float* out, std::size_t plane) {
    normalize_loops::normalize(pixels, count, channels, factors, layout, out, plane);
}

STOKER_AVX512 void normalize_avx512(const std::uint8_t* pixels, std::size_t count, int channels,
                                    const NormalizeFactors& factors, Layout layout, float* out, std::size_t plane) {
    normalize_loops::normalize(pixels, count, channels, factors, layout, out, plane);
}

STOKER_AVX2 void to_16bit_bfloat16(const float* values, std::size_t count, std::uint16_t* out) {
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = to_bfloat16(values[i]);
    }
}

// Every processor with AVX2 has these instructions too.
STOKER_F16C void to_16bit_float16(const float* values, std::size_t count, std::uint16_t* out) {
    std::size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(values + i), _MM_FROUND_TO_NEAREST_INT));
    }
    for (; i < count; ++i) {
        out[i] = to_float16(values[i]);
    }
}

void to_16bit(const float* values, std::size_t count, DType dtype, std::uint16_t* out) {
    dtype == DType::bfloat16 ? to_16bit_bfloat16(values, count, out) : to_16bit_float16(values, count, out);
}

}  // namespace

std::vector<OpKernels> x86_kernels() {
    std::vector<OpKernels> sets;
    if (cpu_features().avx2) {
        sets.push_back({"avx2", resize_columns<Avx2>, resize_rows<Avx2>, normalize_avx2, to_16bit, nullptr,
                        write_planes_avx2, &kShrinkAvx2});
    }
    if (cpu_features().avx512) {
        sets.push_back({"avx512", resize_columns<Avx512>, resize_rows<Avx512>, normalize_avx512, to_16bit, nullptr,
                        write_planes_avx2, &kShrinkAvx2});
        if (has_vnni()) {
            sets.push_back(sets.back());
            sets.back().name = "avx512_vnni";
            sets.back().resize_normalize = resize_normalize_vnni;
        }
    }
    return sets;
}

}  // namespace stoker

// The shrink loops for AVX2. Sums of 16 bits cannot overflow, by the bounds of ShrinkFilter and of the digits; those of
// 32 bits wrap around, and their results fit.
#include <immintrin.h>

#include <cstring>

#include "stoker/ops/kernels.h"
#include "stoker/ops/shrink_kernels.h"

#define STOKER_AVX2 [[gnu::target("avx2")]]
#define STOKER_AVX2_INLINE STOKER_AVX2 [[gnu::always_inline]] inline

namespace stoker {
namespace {

constexpr int kHalf = 1 << (kResizeBits - 1);
constexpr int kChannels = 3;
constexpr int kPairs = 2;  // vectors of two rows

STOKER_AVX2_INLINE __m256i broadcast(const std::int8_t (&weights)[4]) {
    std::int32_t word;
    std::memcpy(&word, weights, sizeof(word));
    return _mm256_set1_epi32(word);
}

// Four pixels of two rows: (2, C + 1, 4 pixels).
STOKER_AVX2_INLINE __m256i load_pixels(const std::uint8_t* a, const std::uint8_t* b) {
    const __m256i planes = _mm256_setr_epi8(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1, 0, 3, 6, 9, 1, 4, 7,
                                            10, 2, 5, 8, 11, -1, -1, -1, -1);
    const __m256i rows =
        _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a))),
                                _mm_loadu_si128(reinterpret_cast<const __m128i*>(b)), 1);
    return _mm256_shuffle_epi8(rows, planes);
}

STOKER_AVX2_INLINE __m256i half_of(ShrinkFilter::Half half, __m256i inputs, __m256i distances, __m256i residuals) {
    const __m256i line = _mm256_add_epi32(_mm256_mullo_epi32(inputs, _mm256_set1_epi32(half.base)),
                                          _mm256_mullo_epi32(distances, _mm256_set1_epi32(half.slope)));
    return _mm256_add_epi32(line, residuals);
}

// Sums of one pixel, (2 rows, C + 1) twice, to its place in a quad row: (C, 4 rows), and 4 bytes of zeros.
STOKER_AVX2_INLINE void store_pixel(const __m256i (&sums)[kPairs], std::uint8_t* out) {
    const __m256i words =
        _mm256_packus_epi32(_mm256_srai_epi32(sums[0], kResizeBits), _mm256_srai_epi32(sums[1], kResizeBits));
    const __m256i bytes = _mm256_packus_epi16(words, words);
    // The bytes of row 0 and 1 in turns, then those of 2 and 3.
    const __m128i rows = _mm_unpacklo_epi8(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
    const __m128i order = _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, -1, -1, -1, -1);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_shuffle_epi8(rows, order));
}

STOKER_AVX2 void filter_rows(const std::uint8_t* const (&rows)[kShrinkRows], const ShrinkFilter& filter,
                             std::uint8_t* out) {
    using Filter = ShrinkFilter;
    const Filter::Step* step = filter.steps().data();
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i left[kPairs] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    bool begun = false;
    for (const Filter::Interval& interval : filter.intervals()) {
        __m256i sums[kPairs][Filter::kSums];
        for (int p = 0; p < kPairs; ++p) {
            for (int s = 0; s < Filter::kSums; ++s) {
                sums[p][s] = _mm256_setzero_si256();
            }
        }
        std::ptrdiff_t at = std::ptrdiff_t{interval.first} * kChannels;
        for (int i = 0; i < interval.steps; ++i, ++step, at += Filter::kTaps * kChannels) {
            const __m256i pixels[kPairs] = {load_pixels(rows[0] + at, rows[1] + at),
                                            load_pixels(rows[2] + at, rows[3] + at)};
            for (int s = 0; s < Filter::kSums; ++s) {
                const __m256i weights = broadcast(step->weights[s]);
                for (int p = 0; p < kPairs; ++p) {
                    sums[p][s] = _mm256_add_epi16(sums[p][s], _mm256_maddubs_epi16(pixels[p], weights));
                }
            }
        }
        __m256i done[kPairs];
        for (int p = 0; p < kPairs; ++p) {
            for (int s = 0; s < Filter::kSums; ++s) {
                sums[p][s] = _mm256_madd_epi16(sums[p][s], ones);
            }
            const __m256i right =
                half_of(interval.right, sums[p][Filter::kInputs], sums[p][Filter::kDistances], sums[p][Filter::kRight]);
            done[p] = _mm256_add_epi32(_mm256_add_epi32(left[p], right), _mm256_set1_epi32(kHalf));
            left[p] =
                half_of(interval.left, sums[p][Filter::kInputs], sums[p][Filter::kDistances], sums[p][Filter::kLeft]);
        }
        if (begun) {
            store_pixel(done, out);
            out += kChannels * kShrinkRows;
        }
        begun = true;
    }
}

constexpr int kVectors = 4;
constexpr std::size_t kBlock = 8 * kVectors;  // values

// kBlock values from byte `at` of each quad row on.
template <int digits>
STOKER_AVX2_INLINE __m256i sum_block(const ShrinkTaps& taps, std::size_t at) {
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i sums[kVectors][digits];
    for (int v = 0; v < kVectors; ++v) {
        for (int d = 0; d < digits; ++d) {
            sums[v][d] = _mm256_setzero_si256();
        }
    }
    for (int q = 0; q < taps.count; ++q) {
        const auto* from = reinterpret_cast<const __m256i*>(taps.quads[q] + at);
        for (int d = 0; d < digits; ++d) {
            const __m256i weights = broadcast(taps.digits[q][d]);
            for (int v = 0; v < kVectors; ++v) {
                const __m256i products = _mm256_maddubs_epi16(_mm256_loadu_si256(from + v), weights);
                sums[v][d] = _mm256_add_epi32(sums[v][d], _mm256_madd_epi16(products, ones));
            }
        }
    }
    __m256i pixels[kVectors];
    for (int v = 0; v < kVectors; ++v) {
        __m256i sum = sums[v][digits - 1];
        for (int d = digits - 2; d >= 0; --d) {
            sum = _mm256_add_epi32(_mm256_slli_epi32(sum, kShrinkDigitBits), sums[v][d]);
        }
        pixels[v] = _mm256_srai_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(kHalf)), kResizeBits);
    }
    // Packing works within 128-bit halves; the permutation restores the order.
    const __m256i bytes =
        _mm256_packus_epi16(_mm256_packus_epi32(pixels[0], pixels[1]), _mm256_packus_epi32(pixels[2], pixels[3]));
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

template <int digits>
STOKER_AVX2 void sum_quads_of(const ShrinkTaps& taps, std::size_t values, std::uint8_t* out) {
    std::size_t i = 0;
    for (; i + kBlock <= values; i += kBlock) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), sum_block<digits>(taps, i * kShrinkRows));
    }
    if (i < values) {
        alignas(32) std::uint8_t last[kBlock];
        _mm256_store_si256(reinterpret_cast<__m256i*>(last), sum_block<digits>(taps, i * kShrinkRows));
        std::memcpy(out + i, last, values - i);
    }
}

void sum_quads(const ShrinkTaps& taps, std::size_t values, std::uint8_t* out) {
    taps.used_digits == kShrinkDigits ? sum_quads_of<kShrinkDigits>(taps, values, out)
                                      : sum_quads_of<kShrinkDigits - 1>(taps, values, out);
}

}  // namespace

const ShrinkKernels kShrinkAvx2{filter_rows, sum_quads};

}  // namespace stoker

// resize_normalize for AVX-512 with VNNI and VBMI: dot products of four bytes with four digits of their weights
// (vnni_filter.h), so that all sums are exact. The horizontal pass permutes its inputs directly out of four rows and
// stores the results interleaved byte by byte, as the vertical pass needs them.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "stoker/ops/kernels.h"
#include "stoker/ops/kernels_vnni.h"

#define STOKER_VNNI [[gnu::target("avx2,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]]
#define STOKER_VNNI_INLINE STOKER_VNNI [[gnu::always_inline]] inline

namespace stoker {
namespace {

constexpr int kGroup = VnniFilter::kLanesPerGroup;
// The rounding constant, 0.5, shifted down by two digits: the shifts between the digits move it up again.
constexpr int kHalf = 1 << (kResizeBits - 1 - 16);

STOKER_VNNI_INLINE __m512i load(const void* from) {
    return _mm512_loadu_si512(from);
}

// Deinterleaves 16 pixels: lane i of `groups[c]` is value 16 c + i of (16, channels); lane i of `out[c]` is channel c
// of pixel i.
template <int channels>
STOKER_VNNI_INLINE void to_planes(const __m512i (&groups)[channels], __m512i (&out)[channels]) {
    const __m512i step = _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                                            _mm512_set1_epi32(channels));
    for (int c = 0; c < channels; ++c) {
        const __m512i value = _mm512_add_epi32(step, _mm512_set1_epi32(c));
        const __m512i group = _mm512_srli_epi32(value, 4);
        out[c] = _mm512_permutexvar_epi32(value, groups[0]);
        for (int g = 1; g < channels; ++g) {
            const __mmask16 here = _mm512_cmpeq_epi32_mask(group, _mm512_set1_epi32(g));
            out[c] = _mm512_mask_permutexvar_epi32(out[c], here, value, groups[g]);
        }
    }
}

// A sum to the range whose upper bits are 0 to 255.
STOKER_VNNI_INLINE __m512i clipped(__m512i sum) {
    constexpr int kMost = (256 << kResizeBits) - 1;
    return _mm512_min_epi32(_mm512_max_epi32(sum, _mm512_setzero_si512()), _mm512_set1_epi32(kMost));
}

// The horizontal pass for one group of four rows. Byte r of each lane is the result of row r.
template <int quads, bool clips>
STOKER_VNNI_INLINE __m512i filter_group(const std::uint8_t* const (&rows)[kQuadRows], const VnniFilter::Entry* entries,
                                        const std::int32_t* offsets) {
    // Selects bits kResizeBits ... kResizeBits + 7 of each lane, four times.
    const __m512i pick = _mm512_set1_epi64(0x3636363616161616);
    __m512i result = _mm512_setzero_si512();
    __m512i index[quads];
    for (int q = 0; q < quads; ++q) {
        index[q] = load(entries[q].index);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kQuadRows; ++r) {
        __m512i bytes[quads];
        for (int q = 0; q < quads; ++q) {
            bytes[q] = _mm512_permutexvar_epi8(index[q], load(rows[r] + offsets[q]));
        }
        __m512i sum = _mm512_set1_epi32(kHalf);
        for (int d = kDigits - 1; d >= 0; --d) {
            for (int q = 0; q < quads; ++q) {
                sum = _mm512_dpbusd_epi32(sum, bytes[q], load(entries[q].digits[d]));
            }
            sum = d > 0 ? _mm512_slli_epi32(sum, 8) : sum;
        }
        sum = clips ? clipped(sum) : sum;
        result = _mm512_mask_multishift_epi64_epi8(result, 0x1111111111111111ull << r, pick, sum);
    }
    return result;
}

// Four rows to one quad row.
template <int channels, int quads, bool clips>
STOKER_VNNI void filter_rows(const std::uint8_t* const (&rows)[kQuadRows], const VnniFilter& table, bool planes,
                             std::byte* out) {
    const VnniFilter::Entry* entries = table.entries();
    const std::int32_t* offsets = table.offsets();
    const int blocks = table.blocks();
    // The distances between the groups of a block, and between blocks.
    const std::ptrdiff_t group_step = planes ? std::ptrdiff_t{blocks} * kQuadVector : kQuadVector;
    const std::ptrdiff_t block_step = planes ? kQuadVector : channels * kQuadVector;
    for (int b = 0; b < blocks; ++b) {
        __m512i groups[channels];
#pragma GCC unroll 4
        for (int g = 0; g < channels; ++g) {
            groups[g] = filter_group<quads, clips>(rows, entries, offsets);
            entries += quads;
            offsets += quads;
        }
        if (planes && channels > 1) {
            __m512i sorted[channels];
            to_planes<channels>(groups, sorted);
            std::copy_n(sorted, channels, groups);
        }
        for (int g = 0; g < channels; ++g) {
            _mm512_storeu_si512(out + b * block_step + g * group_step, groups[g]);
        }
    }
}

// Stores 16 results of 0 to 255, one per lane, as `dtype`.
template <DType dtype>
STOKER_VNNI_INLINE void store(__m512i pixels, const float* scale, const float* bias, std::byte* out, bool streamed) {
    if constexpr (dtype == DType::uint8) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtepi32_epi8(pixels));
        return;
    }
    const __m512 floats =
        _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(pixels), _mm512_load_ps(scale)), _mm512_load_ps(bias));
    if constexpr (dtype == DType::float32) {
        if (streamed) {
            _mm512_stream_ps(reinterpret_cast<float*>(out), floats);
        } else {
            _mm512_storeu_ps(reinterpret_cast<float*>(out), floats);
        }
        return;
    }
    __m256i halves;
    if constexpr (dtype == DType::float16) {
        halves = _mm512_cvtps_ph(floats, _MM_FROUND_TO_NEAREST_INT);
    } else {
        const __m512i bits = _mm512_castps_si512(floats);
        const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
        const __mmask16 nan = _mm512_cmp_ps_mask(floats, floats, _CMP_UNORD_Q);
        __m512i rounded = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF));
        rounded = _mm512_mask_add_epi32(rounded, odd, bits, _mm512_set1_epi32(0x8000));
        rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
        const __m512i upper = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0x1F001D, 0x1B0019, 0x170015, 0x130011, 0xF000D,
                                               0xB0009, 0x70005, 0x30001);
        halves = _mm512_castsi512_si256(_mm512_permutexvar_epi16(upper, rounded));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), halves);  // half a cache line: streaming it does not pay
}

// The vertical pass over `values` values, from byte `at` of each quad row on. `quads` 0: any number of them.
template <DType dtype, int quads, bool clips>
STOKER_VNNI void write_run(const QuadTaps& taps, std::size_t at, std::size_t values, const LaneFactors& factors,
                           std::byte* out, bool streamed) {
    constexpr std::size_t kItem = item_size(dtype);
    const int count = quads > 0 ? quads : taps.count;
    const std::byte* in[std::max(quads, 1)];
    __m512i digits[std::max(quads, 1)][kDigits];
    for (int q = 0; q < quads; ++q) {
        in[q] = taps.quads[q] + at;
        for (int d = 0; d < kDigits; ++d) {
            digits[q][d] = _mm512_set1_epi32(static_cast<int>(taps.digits[q][d]));
        }
    }
    int phase = 0;
    for (std::size_t i = 0; i < values; i += kGroup) {
        __m512i sum = _mm512_set1_epi32(kHalf);
        for (int d = kDigits - 1; d >= 0; --d) {
            for (int q = 0; q < count; ++q) {
                const std::byte* from = (quads > 0 ? in[q] : taps.quads[q] + at) + i * kQuadRows;
                const __m512i digit = quads > 0 ? digits[q][d] : _mm512_set1_epi32(static_cast<int>(taps.digits[q][d]));
                sum = _mm512_dpbusd_epi32(sum, load(from), digit);
            }
            sum = d > 0 ? _mm512_slli_epi32(sum, 8) : sum;
        }
        const __m512i pixels = _mm512_srli_epi32(clips ? clipped(sum) : sum, kResizeBits);
        const float* scale = factors.scale + phase * kGroup;
        const float* bias = factors.bias + phase * kGroup;
        if (values - i >= kGroup) {
            store<dtype>(pixels, scale, bias, out + i * kItem, streamed);
        } else {
            alignas(kQuadVector) std::byte last[kGroup * sizeof(float)];
            store<dtype>(pixels, scale, bias, last, false);
            std::memcpy(out + i * kItem, last, (values - i) * kItem);
        }
        phase = phase + 1 == factors.period ? 0 : phase + 1;
    }
}

template <DType dtype, bool clips>
WriteRun write_run_of(int quads) {
    switch (quads) {
        case 1:
            return write_run<dtype, 1, clips>;
        case 2:
            return write_run<dtype, 2, clips>;
        case 3:
            return write_run<dtype, 3, clips>;
        default:
            return write_run<dtype, 0, clips>;
    }
}

template <bool clips>
WriteRun write_run_of(DType dtype, int quads) {
    switch (dtype) {
        case DType::uint8:
            return write_run_of<DType::uint8, clips>(quads);
        case DType::float16:
            return write_run_of<DType::float16, clips>(quads);
        case DType::bfloat16:
            return write_run_of<DType::bfloat16, clips>(quads);
        default:
            return write_run_of<DType::float32, clips>(quads);
    }
}

template <int channels, bool clips>
FilterRows filter_rows_of(int quads) {
    static constexpr FilterRows kAll[VnniFilter::kMaxQuads] = {
        filter_rows<channels, 1, clips>, filter_rows<channels, 2, clips>, filter_rows<channels, 3, clips>,
        filter_rows<channels, 4, clips>};
    return kAll[quads - 1];
}

template <bool clips>
FilterRows filter_rows_of(int channels, int quads) {
    switch (channels) {
        case 1:
            return filter_rows_of<1, clips>(quads);
        case 2:
            return filter_rows_of<2, clips>(quads);
        case 3:
            return filter_rows_of<3, clips>(quads);
        default:
            return filter_rows_of<4, clips>(quads);
    }
}

}  // namespace

bool has_vnni() {
    return __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni");
}

FilterRows filter_rows_for(int channels, int quads, bool clips) {
    return clips ? filter_rows_of<true>(channels, quads) : filter_rows_of<false>(channels, quads);
}

WriteRun write_run_for(DType dtype, int quads, bool clips) {
    return clips ? write_run_of<true>(dtype, quads) : write_run_of<false>(dtype, quads);
}

void fence_streamed() {
    _mm_sfence();
}

}  // namespace stoker

// The segment kernels for AVX-512 with VBMI2: one expand instruction spreads a block's values, one permutation turns
// zigzag order into rows. CMake compiles this file for that instruction set; it is called only on processors that have
// it.
#if defined(__GNUC__) && !defined(__clang__)  // GCC 12 warns of undefined registers in its own header
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include "stoker/codecs/dct/segment_kernels.h"
#include "stoker/codecs/jpeg/jpeg_frame.h"

namespace stoker {
namespace {

struct Unzigzag {
    alignas(64) std::uint8_t place[kBlockSize] = {};  // the zigzag index of each natural index

    constexpr Unzigzag() {
        for (std::uint8_t k = 0; k < kBlockSize; ++k) {
            place[kZigzag[k]] = k;
        }
    }
};
constexpr Unzigzag kUnzigzag;

__mmask64 first_bytes(std::size_t count) {
    return count >= 64 ? ~__mmask64{0} : (__mmask64{1} << count) - 1;
}

// Unpacks 32 bytes to 64 nibbles, the low nibble first.
__m512i nibbles_of(const std::uint8_t* from) {
    const __m512i words = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    const __m512i high = _mm512_and_si512(_mm512_slli_epi16(words, 4), _mm512_set1_epi16(0x0f00));
    return _mm512_or_si512(_mm512_and_si512(words, _mm512_set1_epi16(0x0f)), high);
}

bool unpack_lengths(const std::uint8_t* nibbles, std::size_t count, std::uint8_t* out) {
    __mmask64 invalid = 0;
    for (std::size_t i = 0; i < count; i += 64) {
        const __m512i values = nibbles_of(nibbles + i / 2);
        invalid |= _mm512_mask_cmpgt_epu8_mask(first_bytes(count - i), values, _mm512_set1_epi8(8));
        _mm512_storeu_si512(out + i, values);
    }
    return invalid == 0;
}

template <typename Map>
std::size_t sum_of(const std::uint8_t* bytes, std::size_t count, Map map) {
    __m512i sums = _mm512_setzero_si512();
    for (std::size_t i = 0; i < count; i += 64) {
        const __m512i values = map(_mm512_maskz_loadu_epi8(first_bytes(count - i), bytes + i));
        sums = _mm512_add_epi64(sums, _mm512_sad_epu8(values, _mm512_setzero_si512()));
    }
    return static_cast<std::size_t>(_mm512_reduce_add_epi64(sums));
}

std::size_t sum(const std::uint8_t* bytes, std::size_t count) {
    return sum_of(bytes, count, [](__m512i values) { return values; });
}

std::size_t count_bits(const std::uint8_t* bytes, std::size_t count) {
    return sum_of(bytes, count, [](__m512i values) { return _mm512_popcnt_epi8(values); });
}

std::size_t count_zeros(const std::uint8_t* nibbles, std::size_t count) {
    std::size_t zeros = 0;
    for (std::size_t i = 0; i < count; i += 64) {
        const __m512i values = nibbles_of(nibbles + i / 2);
        const __mmask64 found = _mm512_mask_testn_epi8_mask(first_bytes(count - i), values, values);
        zeros += static_cast<std::size_t>(_mm_popcnt_u64(found));
    }
    return zeros;
}

std::size_t count_markers(const std::uint8_t* bytes, std::size_t count) {
    const __m512i marker = _mm512_set1_epi8(static_cast<char>(kWideMarker));
    std::size_t markers = 0;
    for (std::size_t i = 0; i < count; i += 64) {
        const __m512i values = _mm512_maskz_loadu_epi8(first_bytes(count - i), bytes + i);
        markers += static_cast<std::size_t>(_mm_popcnt_u64(_mm512_cmpeq_epi8_mask(values, marker)));
    }
    return markers;
}

std::size_t unpack(const std::uint8_t* nibbles, std::size_t first, std::size_t count, const std::int8_t* escapes,
                   std::int8_t* out) {
    const __m512i signs = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1));
    const std::int8_t* next = escapes;
    nibbles += first / 2;
    const std::size_t odd = first % 2;  // skip the first byte's low nibble
    __mmask64 ours = ~__mmask64{odd};
    for (std::size_t i = 0; i < count + odd; i += 64, ours = ~__mmask64{0}) {
        const __m512i places = nibbles_of(nibbles + i / 2);
        const __mmask64 valid = first_bytes(count + odd - i) & ours;
        const __mmask64 escaped = _mm512_mask_testn_epi8_mask(valid, places, places);
        const __m512i values = _mm512_mask_expandloadu_epi8(_mm512_shuffle_epi8(signs, places), escaped, next);
        next += _mm_popcnt_u64(escaped);
        _mm512_mask_storeu_epi8(out + i - odd, valid, values);
    }
    return static_cast<std::size_t>(next - escapes);
}

void expand(const std::uint8_t* lengths, const std::uint8_t* masks, const std::int8_t* values, const std::int16_t* dc,
            int count, std::uint32_t* starts, std::int16_t* out) {
    const std::int8_t* begin = values;
    const __m512i places = _mm512_load_si512(kUnzigzag.place);
    for (int i = 0; i < count; ++i, out += kBlockSize) {
        starts[i] = static_cast<std::uint32_t>(values - begin);
        std::uint64_t bits = 0;
        __builtin_memcpy(&bits, masks, sizeof bits);
        bits = _bzhi_u64(bits, 8U * lengths[i]);
        masks += lengths[i];
        const __m512i zigzag = _mm512_maskz_expand_epi8(bits << 1, _mm512_loadu_si512(values));
        values += _mm_popcnt_u64(bits);
        const __m512i block = _mm512_permutexvar_epi8(places, zigzag);
        const __m512i upper = _mm512_cvtepi8_epi16(_mm512_castsi512_si256(block));
        _mm512_store_si512(out, _mm512_mask_set1_epi16(upper, 1, dc[i]));
        _mm512_store_si512(out + 32, _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(block, 1)));
    }
}

}  // namespace

const SegmentKernels kAvx512SegmentKernels = {"avx512",    unpack_lengths, sum,    count_bits,
                                              count_zeros, count_markers,  unpack, expand};

}  // namespace stoker

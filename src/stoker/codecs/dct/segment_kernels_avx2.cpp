// The segment kernels for AVX2. It lacks an expand instruction: a table holds, for each mask byte, the shuffle that
// spreads its up to eight values. Byte shuffles turn zigzag order into rows. CMake compiles this file for AVX2; it is
// called only on processors that have it.
#include <immintrin.h>

#include "stoker/codecs/dct/segment_kernels.h"
#include "stoker/codecs/jpeg/jpeg_frame.h"

namespace stoker {
namespace {

struct SpreadTable {
    std::uint8_t place[256][8] = {};  // index of the value for each bit; 0x80: none

    constexpr SpreadTable() {
        for (unsigned mask = 0; mask < 256; ++mask) {
            std::uint8_t value = 0;
            for (unsigned bit = 0; bit < 8; ++bit) {
                place[mask][bit] = (mask >> bit & 1) != 0 ? value++ : 0x80;
            }
        }
    }
};
constexpr SpreadTable kSpread;

// place[r][s]: for rows 2r and 2r + 1 of a block, the position of each of their 16 coefficients within zigzag positions
// 16 * s ... 16 * s + 15; 0x80: not in that range.
struct Unzigzag {
    alignas(32) std::uint8_t place[4][4][16] = {};

    constexpr Unzigzag() {
        for (unsigned k = 0; k < kBlockSize; ++k) {
            const unsigned natural = kZigzag[k];
            for (unsigned s = 0; s < 4; ++s) {
                place[natural / 16][s][natural % 16] = k / 16 == s ? static_cast<std::uint8_t>(k % 16) : 0x80;
            }
        }
    }
};
constexpr Unzigzag kUnzigzag;

std::uint64_t load_some(const std::uint8_t* from, std::size_t count) {
    std::uint64_t value = 0;
    __builtin_memcpy(&value, from, sizeof value);
    return count >= 8 ? value : value & ((std::uint64_t{1} << (8 * count)) - 1);
}

// Unpacks 16 bytes to 32 nibbles, the low nibble first.
__m256i nibbles_of(const std::uint8_t* from) {
    const __m256i words = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    const __m256i high = _mm256_and_si256(_mm256_slli_epi16(words, 4), _mm256_set1_epi16(0x0f00));
    return _mm256_or_si256(_mm256_and_si256(words, _mm256_set1_epi16(0x0f)), high);
}

// Bit i is set if byte i is 0, for the first `count` bytes.
std::uint32_t zeros_of(__m256i bytes, std::size_t count) {
    const auto zeros =
        static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_setzero_si256())));
    return count >= 32 ? zeros : zeros & ((std::uint32_t{1} << count) - 1);
}

bool unpack_lengths(const std::uint8_t* nibbles, std::size_t count, std::uint8_t* out) {
    bool valid = true;
    for (std::size_t i = 0; i < count; i += 32) {
        const __m256i values = nibbles_of(nibbles + i / 2);
        const __m256i above = _mm256_subs_epu8(values, _mm256_set1_epi8(8));  // 0 where at most 8
        const std::size_t here = count - i < 32 ? count - i : 32;
        valid = valid && __builtin_popcount(zeros_of(above, here)) == static_cast<int>(here);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), values);
    }
    return valid;
}

std::size_t sum(const std::uint8_t* bytes, std::size_t count) {
    std::size_t total = 0;
    for (std::size_t i = 0; i < count; ++i) {
        total += bytes[i];
    }
    return total;
}

std::size_t count_bits(const std::uint8_t* bytes, std::size_t count) {
    std::size_t bits = 0;
    for (std::size_t i = 0; i < count; i += 8) {
        bits += static_cast<std::size_t>(__builtin_popcountll(load_some(bytes + i, count - i)));
    }
    return bits;
}

std::size_t count_zeros(const std::uint8_t* nibbles, std::size_t count) {
    std::size_t zeros = 0;
    for (std::size_t i = 0; i < count; i += 32) {
        zeros += static_cast<std::size_t>(__builtin_popcount(zeros_of(nibbles_of(nibbles + i / 2), count - i)));
    }
    return zeros;
}

std::size_t count_markers(const std::uint8_t* bytes, std::size_t count) {
    const __m256i marker = _mm256_set1_epi8(static_cast<char>(kWideMarker));
    std::size_t markers = 0;
    for (std::size_t i = 0; i < count; i += 32) {
        const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes + i));
        markers += static_cast<std::size_t>(__builtin_popcount(zeros_of(_mm256_xor_si256(values, marker), count - i)));
    }
    return markers;
}

std::size_t unpack(const std::uint8_t* nibbles, std::size_t first, std::size_t count, const std::int8_t* escapes,
                   std::int8_t* out) {
    const __m256i signs =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1));
    const std::size_t odd = first % 2;  // skip the first byte's low nibble
    std::int8_t* begin = out - odd;
    nibbles += first / 2;
    const std::int8_t* next = escapes;
    for (std::size_t i = 0; i < count + odd; i += 32) {
        const __m256i places = nibbles_of(nibbles + i / 2);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(begin + i), _mm256_shuffle_epi8(signs, places));
        std::uint32_t zeros = zeros_of(places, count + odd - i);
        zeros &= i == 0 ? ~static_cast<std::uint32_t>(odd) : ~std::uint32_t{0};
        for (; zeros != 0; zeros &= zeros - 1) {
            begin[i + static_cast<std::size_t>(__builtin_ctz(zeros))] = *next++;
        }
    }
    return static_cast<std::size_t>(next - escapes);
}

// Writes 64 values in zigzag order as a block of 16-bit values.
void store_block(const __m128i (&source)[4], std::int16_t dc, std::int16_t* out) {
    for (int r = 0; r < 4; ++r) {
        __m128i rows = _mm_setzero_si128();
        for (int s = 0; s < 4; ++s) {
            const auto* place = reinterpret_cast<const __m128i*>(kUnzigzag.place[r][s]);
            rows = _mm_or_si128(rows, _mm_shuffle_epi8(source[s], _mm_load_si128(place)));
        }
        _mm256_store_si256(reinterpret_cast<__m256i*>(out + 16 * r), _mm256_cvtepi8_epi16(rows));
    }
    out[0] = dc;
}

// Spreads the next values to the eight places of a mask.
__m128i spread(std::uint64_t mask, const std::int8_t*& values) {
    const std::uint64_t byte = mask & 0xff;
    const __m128i next = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(values));
    values += __builtin_popcountll(byte);
    return _mm_shuffle_epi8(next, _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kSpread.place[byte])));
}

void expand(const std::uint8_t* lengths, const std::uint8_t* masks, const std::int8_t* values, const std::int16_t* dc,
            int count, std::uint32_t* starts, std::int16_t* out) {
    const std::int8_t* begin = values;
    for (int i = 0; i < count; ++i, out += kBlockSize) {
        starts[i] = static_cast<std::uint32_t>(values - begin);
        std::uint64_t bits = 0;
        __builtin_memcpy(&bits, masks, sizeof bits);
        bits = _bzhi_u64(bits, 8U * lengths[i]);
        masks += lengths[i];
        const std::uint64_t last = bits >> 63;  // not a coefficient
        bits <<= 1;                             // masks begin with coefficient 1
        __m128i source[4];
        for (int s = 0; s < 4; ++s, bits >>= 16) {
            const __m128i low = spread(bits, values);
            source[s] = _mm_unpacklo_epi64(low, spread(bits >> 8, values));
        }
        values += last;
        store_block(source, dc[i], out);
    }
}

}  // namespace

const SegmentKernels kAvx2SegmentKernels = {"avx2",      unpack_lengths, sum,    count_bits,
                                            count_zeros, count_markers,  unpack, expand};

}  // namespace stoker

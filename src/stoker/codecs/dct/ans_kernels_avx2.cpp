// The dct-ans kernels for AVX2: eight lanes a vector. Tables of 256 shuffles pack the bytes that a mask picks, and
// spread them again. CMake compiles this file for AVX2; it is called only on processors that have it.
#include <immintrin.h>

#include "stoker/codecs/dct/ans_kernels.h"

namespace stoker {
namespace {

struct Shuffles {
    alignas(32) std::uint32_t words[256][8] = {};  // for each lane of the mask, the number of those before
    alignas(8) std::uint8_t pack[256][8] = {};     // the bytes of the mask to the front
    alignas(8) std::uint8_t spread[256][8] = {};   // and back; 0x80: none

    constexpr Shuffles() {
        for (unsigned mask = 0; mask < 256; ++mask) {
            std::uint8_t set = 0;
            for (std::uint8_t bit = 0; bit < 8; ++bit) {
                const bool ours = (mask >> bit & 1) != 0;
                words[mask][bit] = set;
                spread[mask][bit] = ours ? set : 0x80;
                if (ours) {
                    pack[mask][set++] = bit;
                }
            }
        }
    }
};
constexpr Shuffles kShuffles;

__m256i load(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

void store(void* to, __m256i value) {
    _mm256_storeu_si256(static_cast<__m256i*>(to), value);
}

// Moves the bytes at `from` by one of kShuffles to `to`.
void shuffle8(const std::uint8_t* from, const std::uint8_t (&places)[8], std::uint8_t* to) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    const __m128i moved = _mm_shuffle_epi8(bytes, _mm_loadl_epi64(reinterpret_cast<const __m128i*>(places)));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), moved);
}

std::size_t ones(unsigned mask) {
    return static_cast<std::size_t>(__builtin_popcount(mask));
}

// Loads the elements at eight places: a fifth faster here than the gather instruction.
__attribute__((always_inline)) inline __m256i gather(const std::uint32_t* from, __m256i places) {
    const auto four = [from](__m128i at) {
        const auto low = static_cast<std::uint64_t>(_mm_cvtsi128_si64(at));
        const auto high = static_cast<std::uint64_t>(_mm_extract_epi64(at, 1));
        const auto element = [from](std::uint64_t place) { return static_cast<int>(from[place]); };
        __m128i found = _mm_cvtsi32_si128(element(low & 0xffffffff));
        found = _mm_insert_epi32(found, element(low >> 32), 1);
        found = _mm_insert_epi32(found, element(high & 0xffffffff), 2);
        return _mm_insert_epi32(found, element(high >> 32), 3);
    };
    return _mm256_set_m128i(four(_mm256_extracti128_si256(places, 1)), four(_mm256_castsi256_si128(places)));
}

// Decodes the symbols of eight lanes, whose slots it returns; the states are not yet normalised.
__attribute__((always_inline)) inline __m256i step(const std::uint32_t* slots, const std::uint8_t* tables,
                                                   __m256i& state) {
    const __m256i low = _mm256_set1_epi32(0xfff);
    const __m256i table = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(tables)));
    const __m256i place = _mm256_and_si256(state, _mm256_set1_epi32(kAnsSlots - 1));
    const __m256i index = _mm256_or_si256(_mm256_slli_epi32(table, kAnsBits), place);
    const __m256i slot = gather(slots, index);
    const __m256i frequency = _mm256_and_si256(_mm256_srli_epi32(slot, 12), low);
    state = _mm256_add_epi32(_mm256_mullo_epi32(frequency, _mm256_srli_epi32(state, kAnsBits)),
                             _mm256_and_si256(slot, low));
    return _mm256_srli_epi32(slot, 24);
}

// Appends a word to each state that is below kAnsLow.
__attribute__((always_inline)) inline void normalise(const std::uint8_t*& next, __m256i& state) {
    const __m256i small = _mm256_cmpeq_epi32(_mm256_srli_epi32(state, 16), _mm256_setzero_si256());
    const auto mask = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(small)));
    const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(next)));
    const __m256i places = _mm256_load_si256(reinterpret_cast<const __m256i*>(kShuffles.words[mask]));
    const __m256i longer = _mm256_or_si256(_mm256_slli_epi32(state, 16), _mm256_permutevar8x32_epi32(words, places));
    state = _mm256_blendv_epi8(state, longer, small);
    next += 2 * ones(mask);
}

bool decode(const std::uint32_t* slots, AnsState& state, std::uint8_t* tables, std::size_t count,
            std::uint8_t* symbols) {
    store(tables + count, _mm256_set1_epi8(static_cast<char>(kAnsSure)));  // changes no lane
    __m256i x[4];
    for (int v = 0; v < 4; ++v) {
        x[v] = _mm256_load_si256(reinterpret_cast<const __m256i*>(state.lane + 8 * v));
    }
    const std::uint8_t* next = state.next;
    for (std::size_t i = 0; i < count && next <= state.end; i += kAnsLanes) {
        const __m256i a = step(slots, tables + i, x[0]);
        const __m256i b = step(slots, tables + i + 8, x[1]);
        const __m256i c = step(slots, tables + i + 16, x[2]);
        const __m256i d = step(slots, tables + i + 24, x[3]);
        normalise(next, x[0]);
        normalise(next, x[1]);
        normalise(next, x[2]);
        normalise(next, x[3]);
        const __m256i bytes = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
        store(symbols + i, _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
    }
    for (int v = 0; v < 4; ++v) {
        _mm256_store_si256(reinterpret_cast<__m256i*>(state.lane + 8 * v), x[v]);
    }
    state.next = next;
    return next <= state.end;
}

// Bit i is set if byte i is the table of a symbol.
unsigned picked(__m256i choices) {
    const __m256i last = _mm256_or_si256(choices, _mm256_set1_epi8(1));
    return ~static_cast<unsigned>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(last, _mm256_set1_epi8(-1))));
}

std::size_t pick_masks(const std::uint8_t* table_of, const std::uint8_t* left, std::size_t count, std::uint8_t* choices,
                       std::uint8_t* tables) {
    __m256i quarter[4];
    for (int q = 0; q < 4; ++q) {
        quarter[q] = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(table_of + 16 * q)));
    }
    const std::uint8_t* const begin = tables;
    for (std::size_t i = 0; i < count; i += 32) {
        const __m256i value = load(left + i);
        if (_mm256_testz_si256(value, value) != 0) {
            continue;
        }
        const __m256i low = _mm256_and_si256(value, _mm256_set1_epi8(15));
        const __m256i bit4 = _mm256_slli_epi16(value, 3);  // to the sign, which blends read
        const __m256i bit5 = _mm256_slli_epi16(value, 2);
        const __m256i lower =
            _mm256_blendv_epi8(_mm256_shuffle_epi8(quarter[0], low), _mm256_shuffle_epi8(quarter[1], low), bit4);
        const __m256i upper =
            _mm256_blendv_epi8(_mm256_shuffle_epi8(quarter[2], low), _mm256_shuffle_epi8(quarter[3], low), bit4);
        const __m256i chosen = _mm256_blendv_epi8(lower, upper, bit5);
        store(choices + i, chosen);
        const unsigned mask = picked(chosen);
        for (unsigned b = 0; b < 4; ++b) {
            const unsigned byte = mask >> (8 * b) & 0xff;
            shuffle8(choices + i + 8 * b, kShuffles.pack[byte], tables);
            tables += ones(byte);
        }
    }
    return static_cast<std::size_t>(tables - begin);
}

std::size_t put_masks(const std::uint8_t* symbols, std::uint8_t all, std::size_t count, std::uint8_t* left,
                      std::uint8_t* nibbles) {
    const __m256i bits_of = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    const __m256i all_set = _mm256_set1_epi8(static_cast<char>(AnsModel::kAllSet));
    const std::uint8_t* symbol = symbols;
    for (std::size_t i = 0; i < count; i += 32) {
        const __m256i value = load(left + i);
        if (_mm256_testz_si256(value, value) != 0) {
            store(nibbles + i, value);
            continue;
        }
        const __m256i chosen = load(nibbles + i);
        const unsigned mask = picked(chosen);
        for (unsigned b = 0; b < 4; ++b) {
            const unsigned byte = mask >> (8 * b) & 0xff;
            shuffle8(symbol, kShuffles.spread[byte], nibbles + i + 8 * b);
            symbol += ones(byte);
        }
        __m256i set = _mm256_or_si256(load(nibbles + i), _mm256_cmpeq_epi8(chosen, all_set));
        set = _mm256_and_si256(set, _mm256_set1_epi8(static_cast<char>(all)));
        store(nibbles + i, set);
        store(left + i, _mm256_sub_epi8(value, _mm256_shuffle_epi8(bits_of, set)));
    }
    return static_cast<std::size_t>(symbol - symbols);
}

void store_masks(__m128i a, __m128i b, __m128i c, __m128i d, std::uint64_t* masks) {
    const __m128i left[2] = {_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b)};
    const __m128i right[2] = {_mm_unpacklo_epi16(c, d), _mm_unpackhi_epi16(c, d)};
    for (int h = 0; h < 2; ++h) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(masks + 4 * h), _mm_unpacklo_epi32(left[h], right[h]));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(masks + 4 * h + 2), _mm_unpackhi_epi32(left[h], right[h]));
    }
}

void join_masks(const std::uint8_t* nibbles, std::size_t stride, std::size_t count, std::uint64_t* masks) {
    for (std::size_t i = 0; i < count; i += 16) {
        __m128i bytes[8];  // of 16 masks
        for (std::size_t b = 0; b < 8; ++b) {
            const std::uint8_t* at = nibbles + 2 * b * stride + i;
            const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
            const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + stride));
            bytes[b] = _mm_or_si128(low, _mm_slli_epi16(high, 4));
        }
        store_masks(_mm_unpacklo_epi8(bytes[0], bytes[1]), _mm_unpacklo_epi8(bytes[2], bytes[3]),
                    _mm_unpacklo_epi8(bytes[4], bytes[5]), _mm_unpacklo_epi8(bytes[6], bytes[7]), masks + i);
        store_masks(_mm_unpackhi_epi8(bytes[0], bytes[1]), _mm_unpackhi_epi8(bytes[2], bytes[3]),
                    _mm_unpackhi_epi8(bytes[4], bytes[5]), _mm_unpackhi_epi8(bytes[6], bytes[7]), masks + i + 8);
    }
}

std::size_t value_tables(const std::uint8_t (*table_of)[9][64], const std::uint8_t* scales, const std::uint8_t* classes,
                         const std::uint64_t* masks, std::size_t count, std::uint8_t* tables) {
    const std::uint8_t* const begin = tables;
    const auto four = [&tables](const std::uint8_t* row, std::uint32_t mask) {
        for (unsigned b = 0; b < 4; ++b) {
            const std::uint32_t byte = mask >> (8 * b) & 0xff;
            shuffle8(row + 8 * b, kShuffles.pack[byte], tables);
            tables += ones(byte);
        }
    };
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint8_t* row = table_of[scales[i]][classes[i]];
        const std::uint64_t mask = masks[i];
        four(row, static_cast<std::uint32_t>(mask));
        if (mask >> 32 != 0) {
            four(row + 32, static_cast<std::uint32_t>(mask >> 32));
        }
    }
    return static_cast<std::size_t>(tables - begin);
}

std::size_t sign_values(const std::uint8_t* symbols, std::size_t count, const std::uint8_t* signs, std::size_t first,
                        std::int8_t* values, std::uint32_t* others) {
    const __m256i byte_of = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3,
                                             3, 3, 3, 3, 3, 3, 3);
    const __m256i bit_of = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
    std::uint32_t* other = others;
    for (std::size_t i = 0; i < count; i += 32) {
        std::uint64_t bits = 0;
        __builtin_memcpy(&bits, signs + (first + i) / 8, sizeof bits);
        const __m256i spread =
            _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(bits >> (first + i) % 8)), byte_of);
        const __m256i negative = _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit_of), bit_of);
        const __m256i symbol = load(symbols + i);
        const __m256i magnitude = _mm256_add_epi8(symbol, _mm256_set1_epi8(1));
        store(values + i, _mm256_sub_epi8(_mm256_xor_si256(magnitude, negative), negative));
        auto found =
            static_cast<unsigned>(_mm256_movemask_epi8(_mm256_cmpgt_epi8(symbol, _mm256_set1_epi8(kAnsOwn - 1))));
        found = count - i < 32 ? _bzhi_u32(found, static_cast<unsigned>(count - i)) : found;
        const std::size_t all = ones(found);
        for (std::size_t k = 0; k < all; k += 4) {  // four at once: most groups take the same branches
            for (std::size_t j = 0; j < 4; ++j, found &= found - 1) {
                other[k + j] =
                    static_cast<std::uint32_t>(i) + static_cast<std::uint32_t>(__builtin_ctz(found | 1U << 31));
            }
        }
        other += all;
    }
    return static_cast<std::size_t>(other - others);
}

}  // namespace

const AnsKernels kAvx2AnsKernels = {"avx2", decode, pick_masks, put_masks, join_masks, value_tables, sign_values};

}  // namespace stoker

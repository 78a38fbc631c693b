// Rows of three channels to planes for AVX2, in one pass: flip, normalize, element type. Stores stay in the caches:
// past them a batch of 64 took 209 us an image instead of 178. Eight pixels are loaded as two vectors that overlap, so
// no byte beyond them is read; shuffles select a channel and extend it to 32 bits.
#include <immintrin.h>

#include <array>
#include <utility>

#include "stoker/ops/kernels.h"

#define STOKER_F16C [[gnu::target("avx2,f16c")]]
#define STOKER_F16C_INLINE STOKER_F16C [[gnu::always_inline]] inline

namespace stoker {
namespace {

constexpr std::size_t kChannels = 3;
constexpr std::size_t kFloats = 8;  // pixels of a step that converts
constexpr std::size_t kBytes = 16;  // pixels of a step that only separates bytes

using Order = std::array<std::int8_t, 32>;

// Pixel 4 l + k of channel c, from lane l; the upper lane is loaded 4 bytes before its first pixel. Flipped, the lanes
// and the pixels within them are swapped.
constexpr Order float_order(std::size_t c, bool flip) {
    Order order{};
    order.fill(-1);
    for (std::size_t lane = 0; lane < 2; ++lane) {
        const std::size_t skipped = (lane == 1) != flip ? 4 : 0;
        for (std::size_t k = 0; k < 4; ++k) {
            order[16 * lane + 4 * k] = static_cast<std::int8_t>(kChannels * (flip ? 3 - k : k) + c + skipped);
        }
    }
    return order;
}

// The bytes of channel c in the v-th 16 of 48 bytes.
constexpr std::array<std::int8_t, 16> byte_order(std::size_t c, std::size_t v, bool flip) {
    std::array<std::int8_t, 16> order{};
    for (std::size_t k = 0; k < kBytes; ++k) {
        const std::size_t at = kChannels * (flip ? kBytes - 1 - k : k) + c;
        order[k] = at / 16 == v ? static_cast<std::int8_t>(at % 16) : std::int8_t{-1};
    }
    return order;
}

template <bool flip>
constexpr std::array<Order, kChannels> kFloatOrders{float_order(0, flip), float_order(1, flip), float_order(2, flip)};

template <std::size_t... at>
constexpr auto byte_orders(bool flip, std::index_sequence<at...>) {
    return std::array{byte_order(at / kChannels, at % kChannels, flip)...};
}
template <bool flip>
constexpr auto kByteOrders = byte_orders(flip, std::make_index_sequence<kChannels * kChannels>());

STOKER_F16C_INLINE __m128i load(const std::uint8_t* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

STOKER_F16C_INLINE __m128i to_bfloat16(__m256 floats) {
    const __m256i bits = _mm256_castps_si256(floats);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(floats, floats, _CMP_UNORD_Q));
    const __m256i upper = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
}

template <DType dtype>
STOKER_F16C_INLINE void store(__m256 floats, std::byte* out) {
    if constexpr (dtype == DType::float16) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_cvtps_ph(floats, _MM_FROUND_TO_NEAREST_INT));
    } else if constexpr (dtype == DType::bfloat16) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out), to_bfloat16(floats));
    } else {
        _mm256_storeu_ps(reinterpret_cast<float*>(out), floats);
    }
}

// All steps of a row share these registers.
struct RowConstants {
    __m256i order[kChannels];
    __m256 scale[kChannels];
    __m256 bias[kChannels];
    std::byte* out[kChannels];
};

template <DType dtype, bool flip>
STOKER_F16C_INLINE RowConstants constants_of(const PlaneRow& row) {
    RowConstants all;
    for (std::size_t c = 0; c < kChannels; ++c) {
        all.order[c] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kFloatOrders<flip>[c].data()));
        all.scale[c] = _mm256_set1_ps(row.factors->scale[c]);
        all.bias[c] = _mm256_set1_ps(row.factors->bias[c]);
        all.out[c] = row.out + c * row.plane * item_size(dtype);
    }
    return all;
}

// Eight pixels from `pixels` on, as pixels x ... x + 7 of the row.
template <DType dtype, bool flip>
STOKER_F16C_INLINE void convert(const std::uint8_t* pixels, const RowConstants& row, std::size_t x) {
    const __m128i low = load(pixels);
    const __m128i high = load(pixels + 8);
    const __m256i both = flip ? _mm256_set_m128i(low, high) : _mm256_set_m128i(high, low);
    for (std::size_t c = 0; c < kChannels; ++c) {
        const __m256 floats = _mm256_cvtepi32_ps(_mm256_shuffle_epi8(both, row.order[c]));
        store<dtype>(_mm256_add_ps(_mm256_mul_ps(floats, row.scale[c]), row.bias[c]),
                     row.out[c] + x * item_size(dtype));
    }
}

// One row of at least one step. The last step overlaps the one before.
template <DType dtype, bool flip>
STOKER_F16C void convert_row(const PlaneRow& row) {
    const RowConstants constants = constants_of<dtype, flip>(row);
    const std::uint8_t* pixels = row.pixels;
    const std::size_t count = row.count;
    const std::size_t last = count - kFloats;
    std::size_t x = 0;
    for (; x <= last; x += kFloats) {
        convert<dtype, flip>(pixels + kChannels * (flip ? last - x : x), constants, x);
    }
    if (x < count) {
        convert<dtype, flip>(pixels + kChannels * (flip ? 0 : last), constants, last);
    }
}

// Sixteen pixels from `pixels` on, as pixels x ... x + 15 of the row.
template <bool flip>
STOKER_F16C_INLINE void separate(const std::uint8_t* pixels, const PlaneRow& row, std::size_t x) {
    const __m128i bytes[kChannels] = {load(pixels), load(pixels + 16), load(pixels + 32)};
    for (std::size_t c = 0; c < kChannels; ++c) {
        __m128i plane = _mm_setzero_si128();
        for (std::size_t v = 0; v < kChannels; ++v) {
            const auto* order = reinterpret_cast<const __m128i*>(kByteOrders<flip>[c * kChannels + v].data());
            plane = _mm_or_si128(plane, _mm_shuffle_epi8(bytes[v], _mm_loadu_si128(order)));
        }
        _mm_storeu_si128(reinterpret_cast<__m128i*>(row.out + c * row.plane + x), plane);
    }
}

template <bool flip>
STOKER_F16C void separate_row(const PlaneRow& row) {
    const std::size_t last = row.count - kBytes;
    std::size_t x = 0;
    for (; x <= last; x += kBytes) {
        separate<flip>(row.pixels + kChannels * (flip ? last - x : x), row, x);
    }
    if (x < row.count) {
        separate<flip>(row.pixels + kChannels * (flip ? 0 : last), row, last);
    }
}

template <DType dtype>
void convert_row_of(const PlaneRow& row) {
    row.flip ? convert_row<dtype, true>(row) : convert_row<dtype, false>(row);
}

}  // namespace

bool write_planes_avx2(const PlaneRow& row) {
    if (row.count < (row.dtype == DType::uint8 ? kBytes : kFloats)) {
        return false;
    }
    switch (row.dtype) {
        case DType::uint8:
            row.flip ? separate_row<true>(row) : separate_row<false>(row);
            return true;
        case DType::float16:
            convert_row_of<DType::float16>(row);
            return true;
        case DType::bfloat16:
            convert_row_of<DType::bfloat16>(row);
            return true;
        default:
            convert_row_of<DType::float32>(row);
            return true;
    }
}

}  // namespace stoker

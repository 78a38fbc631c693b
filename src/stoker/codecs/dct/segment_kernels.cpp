// The kernels in plain C++, for processors without vector sets; the tests compare the vector sets with them.
#include "stoker/codecs/dct/segment_kernels.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "stoker/base/cpu_features.h"
#include "stoker/codecs/jpeg/jpeg_frame.h"

namespace stoker {
namespace {

int nibble_at(const std::uint8_t* nibbles, std::size_t place) {
    return nibbles[place / 2] >> (4 * (place % 2)) & 15;
}

bool unpack_lengths(const std::uint8_t* nibbles, std::size_t count, std::uint8_t* out) {
    bool valid = true;
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = static_cast<std::uint8_t>(nibble_at(nibbles, i));
        valid = valid && out[i] <= 8;
    }
    return valid;
}

std::size_t sum(const std::uint8_t* bytes, std::size_t count) {
    return std::accumulate(bytes, bytes + count, std::size_t{0});
}

std::size_t count_bits(const std::uint8_t* bytes, std::size_t count) {
    std::size_t bits = 0;
    for (std::size_t i = 0; i < count; ++i) {
        bits += static_cast<std::size_t>(std::popcount(bytes[i]));
    }
    return bits;
}

std::size_t count_zeros(const std::uint8_t* nibbles, std::size_t count) {
    std::size_t zeros = 0;
    for (std::size_t i = 0; i < count; ++i) {
        zeros += nibble_at(nibbles, i) == 0 ? 1U : 0U;
    }
    return zeros;
}

std::size_t count_markers(const std::uint8_t* bytes, std::size_t count) {
    return static_cast<std::size_t>(std::count(bytes, bytes + count, kWideMarker));
}

std::size_t unpack(const std::uint8_t* nibbles, std::size_t first, std::size_t count, const std::int8_t* escapes,
                   std::int8_t* out) {
    const std::int8_t* next = escapes;
    for (std::size_t i = 0; i < count; ++i) {
        const int nibble = nibble_at(nibbles, first + i);
        out[i] = nibble == 0 ? *next++ : static_cast<std::int8_t>(nibble < 8 ? nibble : nibble - 16);
    }
    return static_cast<std::size_t>(next - escapes);
}

void expand(const std::uint8_t* lengths, const std::uint8_t* masks, const std::int8_t* values, const std::int16_t* dc,
            int count, std::uint32_t* starts, std::int16_t* out) {
    const std::int8_t* begin = values;
    std::fill_n(out, std::ptrdiff_t{kBlockSize} * count, std::int16_t{0});
    for (int i = 0; i < count; ++i, out += kBlockSize) {
        out[0] = dc[i];
        starts[i] = static_cast<std::uint32_t>(values - begin);
        for (std::uint64_t mask = load_mask(masks, lengths[i]); mask != 0; mask &= mask - 1) {
            const auto k = static_cast<std::size_t>(std::countr_zero(mask)) + 1;
            const std::int8_t value = *values++;
            if (k < kBlockSize) {  // the last bit is set only in damaged files; its value is ignored
                out[kZigzag[k]] = value;
            }
        }
        masks += lengths[i];
    }
}

std::vector<SegmentKernels> find_kernels() {
    std::vector<SegmentKernels> sets = {kPlainSegmentKernels};
#if defined(__x86_64__)
    if (cpu_features().avx2) {
        sets.push_back(kAvx2SegmentKernels);
    }
    if (cpu_features().avx512_vbmi2) {
        sets.push_back(kAvx512SegmentKernels);
    }
#endif
    return sets;
}

}  // namespace

const SegmentKernels kPlainSegmentKernels = {"plain",     unpack_lengths, sum,    count_bits,
                                             count_zeros, count_markers,  unpack, expand};

std::span<const SegmentKernels> segment_kernels() {
    static const std::vector<SegmentKernels> sets = find_kernels();
    return sets;
}

const SegmentKernels& best_segment_kernels() {
    return segment_kernels().back();
}

}  // namespace stoker

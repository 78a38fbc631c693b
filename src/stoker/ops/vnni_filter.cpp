// First computes the offset of each entry's 64 bytes, then the indices and weights.
#include "stoker/ops/vnni_filter.h"

#include <algorithm>
#include <cstring>

namespace stoker {
namespace {

// The output of the axis for pixel x of the row.
std::size_t source_of(int x, int count, bool flip) {
    return static_cast<std::size_t>(flip ? count - 1 - x : x);
}

}  // namespace

bool VnniFilter::build(const ResizeAxis& axis, int left, int row_bytes, int channels, bool flip) {
    int max_taps = 0;
    for (const ResizeTaps& taps : axis.taps) {
        max_taps = std::max(max_taps, taps.count);
    }
    quads_ = (max_taps + 3) / 4;
    if (quads_ > kMaxQuads || row_bytes < kBytes) {
        return false;
    }
    blocks_ = (static_cast<int>(axis.taps.size()) + kLanesPerGroup - 1) / kLanesPerGroup;
    if (!set_offsets(axis, left, row_bytes, channels, flip)) {
        return false;
    }
    fill(axis, left, channels, flip);
    return true;
}

bool VnniFilter::set_offsets(const ResizeAxis& axis, int left, int row_bytes, int channels, bool flip) {
    const int count = static_cast<int>(axis.taps.size());
    const int groups = blocks_ * channels;
    offsets_.resize(static_cast<std::size_t>(groups * quads_));
    for (int g = 0; g < groups; ++g) {
        const int first = std::min(g * kLanesPerGroup / channels, count - 1);
        const int last = std::min((g * kLanesPerGroup + kLanesPerGroup - 1) / channels, count - 1);
        const ResizeTaps a = axis.taps[source_of(first, count, flip)];
        const ResizeTaps b = axis.taps[source_of(last, count, flip)];
        const int begin = std::min(a.first, b.first);
        const int end = std::max(a.first + a.count, b.first + b.count);
        const int furthest = std::max(a.first, b.first);
        for (int q = 0; q < quads_; ++q) {
            const int offset = std::clamp((begin + 4 * q - left) * channels, 0, row_bytes - kBytes);
            const int bytes_end = (std::min(furthest + 4 * q + 4, end) - left) * channels;
            if (bytes_end - offset > kBytes) {
                return false;
            }
            offsets_[static_cast<std::size_t>(g * quads_ + q)] = offset;
        }
    }
    return true;
}

void VnniFilter::fill(const ResizeAxis& axis, int left, int channels, bool flip) {
    const int count = static_cast<int>(axis.taps.size());
    entries_.resize(offsets_.size() * sizeof(Entry));
    auto* entries = reinterpret_cast<Entry*>(entries_.data());
    const auto step = static_cast<std::uint32_t>(channels);
    const std::uint32_t spread = step << 8 | 2 * step << 16 | 3 * step << 24;
    for (int x = 0; x < blocks_ * kLanesPerGroup; ++x) {
        const std::size_t i = source_of(std::min(x, count - 1), count, flip);
        const ResizeTaps taps = axis.taps[i];
        const std::int32_t* weights = axis.weights.data() + i * static_cast<std::size_t>(axis.stride);
        for (int q = 0; q < quads_; ++q) {
            const int used = std::min(taps.count - 4 * q, 4);
            std::int32_t four[4] = {};
            for (int k = 0; k < used; ++k) {
                four[k] = weights[4 * q + k];
            }
            std::uint32_t words[kDigits];
            split_weights(four, words);
            for (int c = 0; c < channels; ++c) {
                const int value = x * channels + c;
                const int at = value / kLanesPerGroup * quads_ + q;
                const int lane = value % kLanesPerGroup;
                const int byte = (taps.first + 4 * q - left) * channels + c - offsets_[static_cast<std::size_t>(at)];
                // A quad without taps has weights of 0, so its index does not matter.
                entries[at].index[lane] = used > 0 ? static_cast<std::uint32_t>(byte) * 0x01010101u + spread : 0;
                for (int d = 0; d < kDigits; ++d) {
                    entries[at].digits[d][lane] = words[d];
                }
            }
        }
    }
}

}  // namespace stoker

// A horizontal filter drawn up for vectors: 16 outputs at a time, each the sum of up to four bytes that
// one permutation fetches from 64 neighbouring ones. Mirroring is an order of outputs, so it costs nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/ops/resize_axis.h"

namespace stoker {

// A weight of 22 bits as three signed digits of base 256: weight = digit[0] + 256 digit[1] + 65536 digit[2].
inline constexpr int kDigits = 3;

// Four weights to three words of four digits each.
inline void split_weights(const std::int32_t (&weights)[4], std::uint32_t (&words)[kDigits]) {
    for (std::uint32_t& word : words) {
        word = 0;
    }
    for (int k = 0; k < 4; ++k) {
        // 128 too much in both lower digits makes them unsigned; flipping their top bits takes it off again.
        const std::uint32_t shifted = static_cast<std::uint32_t>(weights[k]) + 0x8080u;
        const int at = 8 * k;
        words[0] |= ((shifted & 0xFFu) ^ 0x80u) << at;
        words[1] |= ((shifted >> 8 & 0xFFu) ^ 0x80u) << at;
        words[2] |= (shifted >> 16) << at;
    }
}

class LaneTable {
  public:
    static constexpr int kLanesPerGroup = 16;
    static constexpr int kBytes = 64;     // that an entry reads
    static constexpr int kMostQuads = 2;  // four taps each: what fits into kBytes at the largest scale that does

    // Lane i of group g is value 16 g + i of an output row (x, c); lane i's four bytes lie together.
    struct Entry {
        std::uint32_t index[kLanesPerGroup];            // of each byte among the 64
        std::uint32_t digits[kDigits][kLanesPerGroup];  // of the weights
    };

    // For rows of `row_bytes` bytes, `channels` a pixel, whose first column is `left` of the axis' input. False
    // where it cannot be done: rows shorter than kBytes, or taps too far apart.
    bool build(const ResizeAxis& axis, int left, int row_bytes, int channels, bool flip);

    int blocks() const { return blocks_; }  // of 16 pixels, that is `channels` groups
    int quads() const { return quads_; }
    // (groups, quads). No entry reads outside a row.
    const Entry* entries() const { return reinterpret_cast<const Entry*>(entries_.data()); }
    const std::int32_t* offsets() const { return offsets_.data(); }  // in a row, of each entry's bytes

  private:
    bool place(const ResizeAxis& axis, int left, int row_bytes, int channels, bool flip);
    void fill(const ResizeAxis& axis, int left, int channels, bool flip);

    Buffer entries_;
    std::vector<std::int32_t> offsets_;
    int blocks_ = 0;
    int quads_ = 0;
};

}  // namespace stoker

// A horizontal resize filter prepared for the VNNI kernels: tables for 16 outputs at a time. Each output is the
// weighted sum of one to four quads of bytes; a permutation selects a quad from 64 adjacent bytes. A flip only
// changes the order of the outputs, so it costs nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/ops/resize_axis.h"

namespace stoker {

// A weight of 22 bits is split into three signed digits: weight = digit[0] + 256 digit[1] + 65536 digit[2].
inline constexpr int kDigits = 3;

// Splits four weights into three words of four digits each.
inline void split_weights(const std::int32_t (&weights)[4], std::uint32_t (&words)[kDigits]) {
    for (std::uint32_t& word : words) {
        word = 0;
    }
    for (int k = 0; k < 4; ++k) {
        // Adding 128 makes both lower digits unsigned; flipping their top bits subtracts it again.
        const std::uint32_t shifted = static_cast<std::uint32_t>(weights[k]) + 0x8080u;
        const int at = 8 * k;
        words[0] |= ((shifted & 0xFFu) ^ 0x80u) << at;
        words[1] |= ((shifted >> 8 & 0xFFu) ^ 0x80u) << at;
        words[2] |= (shifted >> 16 & 0xFFu) << at;
    }
}

class VnniFilter {
  public:
    static constexpr int kLanesPerGroup = 16;
    static constexpr int kBytes = 64;    // bytes that an entry reads
    static constexpr int kMaxQuads = 4;  // a quad is four taps; the taps of `bilinear` that fit into kBytes are two

    // Lane i of group g is value 16 g + i of an output row (x, c).
    struct Entry {
        std::uint32_t index[kLanesPerGroup];            // positions of the four bytes within the 64
        std::uint32_t digits[kDigits][kLanesPerGroup];  // digits of the four weights
    };

    // For rows of `row_bytes` bytes and `channels` bytes per pixel, whose first column is column `left` of the axis'
    // input. Returns false if a row is shorter than kBytes or the taps are too far apart.
    bool build(const ResizeAxis& axis, int left, int row_bytes, int channels, bool flip);

    int blocks() const { return blocks_; }  // a block is 16 pixels, or `channels` groups
    int quads() const { return quads_; }    // quads per output
    // (groups, quads). No entry reads beyond a row.
    const Entry* entries() const { return reinterpret_cast<const Entry*>(entries_.data()); }
    const std::int32_t* offsets() const { return offsets_.data(); }  // offset of each entry's bytes in a row

  private:
    bool set_offsets(const ResizeAxis& axis, int left, int row_bytes, int channels, bool flip);
    void fill(const ResizeAxis& axis, int left, int channels, bool flip);

    Buffer entries_;
    std::vector<std::int32_t> offsets_;
    int blocks_ = 0;
    int quads_ = 0;
};

}  // namespace stoker

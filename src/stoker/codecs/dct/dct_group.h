// The zstd stage of dct-zstd. A group holds the segments of several MCU rows; equal parts of all segments are joined,
// and each of the four joined parts is compressed separately. A group covers about 64 pixel rows: enough data for zstd,
// and a crop need not read the other groups. Internal to codecs/.
//   uint32 size of each of the four compressed parts (front, masks, values, escapes)
//   the four parts as zstd frames with their content size; empty parts have no frame
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/codecs/dct/dct_segment.h"

struct ZSTD_DCtx_s;  // from zstd.h

namespace stoker {

std::vector<std::byte> write_group(const SegmentParts& parts);

// Decompresses one group at a time and rebuilds its segments. Reuses its memory.
class GroupReader {
  public:
    GroupReader();

    // `blocks`: the number of blocks in each segment of the group. Throws DataError.
    void read(std::span<const std::byte> group, std::span<const int> blocks, const SegmentKernels& kernels);

    // Followed by kSegmentPadding readable bytes.
    std::span<const std::byte> segment(std::size_t i) const;

  private:
    std::unique_ptr<ZSTD_DCtx_s, std::size_t (*)(ZSTD_DCtx_s*)> zstd_;
    SegmentScratch scratch_;
    std::array<Buffer, 4> parts_;
    Buffer segments_;
    std::vector<std::size_t> ends_;
};

}  // namespace stoker

// The second, general stage of dct-zstd: the segments of several MCU rows, with their parts side by side and each
// kind of part compressed by itself. A group of about 64 pixel rows is large enough for zstd and small enough for
// a crop to leave others alone. Internal to codecs/.
//   uint32 size of each of the four compressed parts (front, masks, values, escapes)
//   the four parts as zstd frames that name their content's size; an empty part has no frame
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/codecs/dct/dct_segment.h"

namespace stoker {

std::vector<std::byte> write_group(const SegmentParts& parts);

// Decompresses one group at a time, and puts its segments together again. Keeps its memory.
class GroupReader {
  public:
    GroupReader();
    GroupReader(GroupReader&&) noexcept;
    GroupReader& operator=(GroupReader&&) noexcept;
    ~GroupReader();

    // `blocks` are those of each of the group's segments. Throws DataError.
    void read(std::span<const std::byte> group, std::span<const int> blocks, const SegmentKernels& kernels);

    // Followed by kSegmentPadding readable bytes.
    std::span<const std::byte> segment(std::size_t i) const;

  private:
    struct Zstd;
    std::unique_ptr<Zstd> zstd_;
    SegmentScratch scratch_;
    std::array<Buffer, 4> parts_;
    Buffer segments_;
    std::vector<std::size_t> ends_;
};

}  // namespace stoker

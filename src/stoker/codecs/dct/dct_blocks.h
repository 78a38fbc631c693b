// Reads the blocks of a dct record of each kind. Internal to codecs/.
#pragma once

#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/codecs/codec.h"
#include "stoker/codecs/dct/ans_group.h"
#include "stoker/codecs/dct/dct_group.h"
#include "stoker/codecs/dct/dct_record.h"
#include "stoker/codecs/dct/dct_segment.h"

namespace stoker {

class DctBlocks final : public BlockRows {
  public:
    explicit DctBlocks(const SegmentKernels& kernels = best_segment_kernels(),
                       const AnsKernels& ans_kernels = best_ans_kernels())
        : kernels_(&kernels), ans_group_(ans_kernels) {}

    // `open` and `blocks` throw DataError. The caller keeps the record alive until the last call of `blocks`.
    void open(std::span<const std::byte> record);
    const DctHeader& header() const { return header_; }

    const std::int16_t* blocks(int component, int block_row, int first, int count) override;

    // The same blocks as in a segment, in the record or in this object until the next call. Throws DataError where
    // `blocks` does.
    struct StoredBlocks {
        SegmentRange range;
        const std::uint8_t* lengths;  // (count), of the masks
        const std::int16_t* dc;       // (count)
    };
    StoredBlocks stored(int component, int block_row, int first, int count);

  private:
    int segment_number(int component, int block_row) const;
    int group_of(int number) const;
    int rows_of(int group) const;
    std::span<const std::byte> segment(int number);
    const std::int16_t* ans_blocks(int component, int block_row, int first, int count);
    [[noreturn]] static void refuse(int number);

    const SegmentKernels* kernels_;
    DctHeader header_;
    SegmentScratch scratch_;
    GroupReader group_;
    AnsGroupReader ans_group_;
    int group_number_ = -1;          // the group that is in group_ or ans_group_
    std::vector<int> group_blocks_;  // blocks in each of its segments
    Buffer blocks_;
    SegmentParts parts_;
    std::vector<std::byte> segment_;  // of the last call of `stored`, made of the blocks of ans_group_
};

// The size and colours of the image, from its header.
ImageInfo dct_info(const DctHeader& header);

}  // namespace stoker

// Segments are ordered by MCU row, then by component, then from top to bottom.
#include "stoker/codecs/dct/dct_blocks.h"

#include <algorithm>
#include <fmt/format.h>

#include "stoker/base/error.h"

namespace stoker {

void DctBlocks::open(std::span<const std::byte> record) {
    read_dct_header(record, header_);
    group_number_ = -1;
}

std::span<const std::byte> DctBlocks::segment(int number) {
    if ((header_.flags & DctFlags::kZstd) == 0) {
        return header_.chunk(number);
    }
    const int in_row = header_.segments_per_mcu_row();
    const int group = number / in_row / header_.group_rows;
    if (group != group_number_) {
        const int rows = std::min<int>(header_.group_rows, header_.frame.mcus_high - group * header_.group_rows);
        group_blocks_.clear();
        for (int row = 0; row < rows; ++row) {
            for (int c = 0; c < header_.frame.components; ++c) {
                const FrameComponent& component = header_.frame.component[JpegFrame::at(c)];
                group_blocks_.insert(group_blocks_.end(), static_cast<std::size_t>(component.v), component.blocks_wide);
            }
        }
        group_number_ = -1;
        group_.read(header_.chunk(group), group_blocks_, *kernels_);
        group_number_ = group;
    }
    return group_.segment(static_cast<std::size_t>(number - group * header_.group_rows * in_row));
}

int DctBlocks::segment_number(int component, int block_row) const {
    const int v = header_.frame.component[JpegFrame::at(component)].v;
    int number = block_row / v * header_.segments_per_mcu_row() + block_row % v;
    for (int c = 0; c < component; ++c) {
        number += header_.frame.component[JpegFrame::at(c)].v;
    }
    return number;
}

void DctBlocks::refuse(int number) {
    throw DataError({},
                    {.where = "dct", .expected = "valid segments", .got = fmt::format("damage in number {}", number)});
}

const std::int16_t* DctBlocks::blocks(int component, int block_row, int first, int count) {
    const int number = segment_number(component, block_row);
    const int all = header_.frame.component[JpegFrame::at(component)].blocks_wide;
    // BlockDecoder reads groups of four blocks.
    blocks_.resize(sizeof(std::int16_t) * kBlockSize * static_cast<std::size_t>(count + 3));
    auto* out = reinterpret_cast<std::int16_t*>(blocks_.data());
    if (!read_segment(segment(number), all, first, count, *kernels_, scratch_, out)) {
        refuse(number);
    }
    return out;
}

DctBlocks::StoredBlocks DctBlocks::stored(int component, int block_row, int first, int count) {
    const int number = segment_number(component, block_row);
    const int all = header_.frame.component[JpegFrame::at(component)].blocks_wide;
    StoredBlocks stored{};
    if (!find_range(segment(number), all, first, count, *kernels_, scratch_, stored.range)) {
        refuse(number);
    }
    stored.lengths = scratch_.lengths.data() + first;
    stored.dc = scratch_.dc.data() + first;
    return stored;
}

}  // namespace stoker

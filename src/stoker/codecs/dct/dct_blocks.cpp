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

int DctBlocks::group_of(int number) const {
    return number / header_.segments_per_mcu_row() / header_.group_rows;
}

// MCU rows in a group.
int DctBlocks::rows_of(int group) const {
    return std::min<int>(header_.group_rows, header_.frame.mcus_high - group * header_.group_rows);
}

std::span<const std::byte> DctBlocks::segment(int number) {
    if (!header_.grouped()) {
        return header_.chunk(number);
    }
    const int group = group_of(number);
    if (group != group_number_) {
        group_blocks_.clear();
        for (int row = 0; row < rows_of(group); ++row) {
            for (int c = 0; c < header_.frame.components; ++c) {
                const FrameComponent& component = header_.frame.component[JpegFrame::at(c)];
                group_blocks_.insert(group_blocks_.end(), static_cast<std::size_t>(component.v), component.blocks_wide);
            }
        }
        group_number_ = -1;
        group_.read(header_.chunk(group), group_blocks_, *kernels_);
        group_number_ = group;
    }
    const int before = group * header_.group_rows * header_.segments_per_mcu_row();
    return group_.segment(static_cast<std::size_t>(number - before));
}

const std::int16_t* DctBlocks::ans_blocks(int component, int block_row, int first, int count) {
    const int v = header_.frame.component[JpegFrame::at(component)].v;
    const int group = block_row / v / header_.group_rows;
    if (group != group_number_) {
        AnsPlane planes[3];
        for (int c = 0; c < header_.frame.components; ++c) {
            const FrameComponent& from = header_.frame.component[JpegFrame::at(c)];
            planes[c].wide = static_cast<std::size_t>(from.blocks_wide);
            planes[c].rows = static_cast<std::size_t>(rows_of(group) * from.v);
        }
        group_number_ = -1;
        ans_group_.read(header_.chunk(group), {planes, static_cast<std::size_t>(header_.frame.components)});
        group_number_ = group;
    }
    auto* out = reinterpret_cast<std::int16_t*>(blocks_.data());
    ans_group_.blocks(static_cast<std::size_t>(component),
                      static_cast<std::size_t>(block_row - group * header_.group_rows * v),
                      static_cast<std::size_t>(first), static_cast<std::size_t>(count), *kernels_, out);
    return out;
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
    // BlockDecoder reads groups of four blocks.
    blocks_.resize(sizeof(std::int16_t) * kBlockSize * static_cast<std::size_t>(count + 3));
    if ((header_.flags & DctFlags::kAns) != 0) {
        return ans_blocks(component, block_row, first, count);
    }
    const int number = segment_number(component, block_row);
    const int all = header_.frame.component[JpegFrame::at(component)].blocks_wide;
    auto* out = reinterpret_cast<std::int16_t*>(blocks_.data());
    if (!read_segment(segment(number), all, first, count, *kernels_, scratch_, out)) {
        refuse(number);
    }
    return out;
}

DctBlocks::StoredBlocks DctBlocks::stored(int component, int block_row, int first, int count) {
    StoredBlocks stored{};
    if ((header_.flags & DctFlags::kAns) != 0) {
        parts_.clear();
        write_segment(blocks(component, block_row, first, count), count, parts_);
        join_segment(parts_, segment_);
        const std::size_t size = segment_.size();
        segment_.resize(size + kSegmentPadding);
        find_range(std::span(segment_).first(size), count, 0, count, *kernels_, scratch_, stored.range);
        stored.lengths = scratch_.lengths.data();
        stored.dc = scratch_.dc.data();
        return stored;
    }
    const int number = segment_number(component, block_row);
    const int all = header_.frame.component[JpegFrame::at(component)].blocks_wide;
    if (!find_range(segment(number), all, first, count, *kernels_, scratch_, stored.range)) {
        refuse(number);
    }
    stored.lengths = scratch_.lengths.data() + first;
    stored.dc = scratch_.dc.data() + first;
    return stored;
}

}  // namespace stoker

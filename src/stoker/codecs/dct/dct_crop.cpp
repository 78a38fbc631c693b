// Reads segments in the order of BlockDecoder, so that the first damaged one is the same, with the same message.
#include "stoker/codecs/dct/dct_crop.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace stoker {
namespace {

void append(std::vector<std::byte>& to, const void* from, std::size_t bytes) {
    const auto* const begin = static_cast<const std::byte*>(from);
    to.insert(to.end(), begin, begin + bytes);
}

DctCropPlane plane_of(const FrameComponent& component, const PlanePlan& plan, std::uint32_t at) {
    DctCropPlane plane{.at = at,
                       .stride = kBlockSide * plan.blocks,
                       .top = plan.first_row / kBlockSide * kBlockSide,
                       .left = kBlockSide * plan.first_block,
                       .width = plan.width,
                       .height = plan.height,
                       .scale_h = plan.scale_h,
                       .scale_v = plan.scale_v,
                       .smooth_h = plan.smooth_h ? 1 : 0,
                       .smooth_v = plan.smooth_v ? 1 : 0};
    std::ranges::copy(component.quant, plane.quant);
    return plane;
}

}  // namespace

CropMcus plan_crop(const JpegFrame& frame, const Box& box, DctCrop& head, PlanePlan (&plans)[3]) {
    head = {.box = box,
            .color = static_cast<std::uint32_t>(frame.color),
            .components = static_cast<std::uint32_t>(frame.components)};
    CropMcus mcus{.row = frame.mcus_high, .column = frame.mcus_wide};
    for (int c = 0; c < frame.components; ++c) {
        const FrameComponent& component = frame.component[JpegFrame::at(c)];
        const PlanePlan& plan = plans[c] = plan_plane(frame, component, box, 1);
        head.planes[c] = plane_of(component, plan, head.samples);
        const int rows = plan.last_row / kBlockSide - plan.first_row / kBlockSide + 1;  // of blocks
        head.samples += static_cast<std::uint32_t>(kBlockSize * rows * plan.blocks);
        mcus.row = std::min(mcus.row, plan.first_row / (kBlockSide * component.v));
        mcus.end_row = std::max(mcus.end_row, plan.last_row / (kBlockSide * component.v) + 1);
        mcus.column = std::min(mcus.column, plan.first_block / component.h);
        mcus.end_column = std::max(mcus.end_column, (plan.first_block + plan.blocks - 1) / component.h + 1);
    }
    return mcus;
}

ImageInfo DctCropper::open(std::span<const std::byte> record) {
    blocks_.open(record);
    return dct_info(blocks_.header());
}

std::span<const std::byte> DctCropper::crop(const Box& box, std::size_t most) {
    const JpegFrame& frame = blocks_.header().frame;
    rows_.clear();
    bytes_.clear();
    PlanePlan plans[3];
    const CropMcus mcus = plan_crop(frame, box, head_, plans);
    for (int mcu_row = mcus.row; mcu_row < mcus.end_row; ++mcu_row) {
        for (int c = 0; c < frame.components; ++c) {
            const int v = frame.component[JpegFrame::at(c)].v;
            for (int row = mcu_row * v; row < (mcu_row + 1) * v; ++row) {
                if (plans[c].needs(row) && !add_row(c, row, most)) {
                    return {};
                }
            }
        }
    }
    head_.rows = static_cast<std::uint32_t>(rows_.size());
    const std::size_t front = sizeof head_ + sizeof(DctCropRow) * rows_.size();
    for (DctCropRow& row : rows_) {
        row.at += static_cast<std::uint32_t>(front);
    }
    whole_.resize(front + bytes_.size());
    std::memcpy(whole_.data(), &head_, sizeof head_);
    std::memcpy(whole_.data() + sizeof head_, rows_.data(), front - sizeof head_);
    std::memcpy(whole_.data() + front, bytes_.data(), bytes_.size());
    return std::as_const(whole_).bytes();
}

// Returns false past `most` bytes.
bool DctCropper::add_row(int component, int block_row, std::size_t most) {
    const DctCropPlane& plane = head_.planes[component];
    const int count = plane.stride / kBlockSide;
    const auto [range, lengths, dc] = blocks_.stored(component, block_row, plane.left / kBlockSide, count);
    DctCropRow row{.at = static_cast<std::uint32_t>(bytes_.size()),
                   .sample = plane.at + static_cast<std::uint32_t>((kBlockSide * block_row - plane.top) * plane.stride),
                   .blocks = static_cast<std::uint16_t>(count),
                   .component = static_cast<std::uint8_t>(component),
                   .odd = static_cast<std::uint8_t>(range.first_value % 2)};
    const auto here = [&] { return static_cast<std::uint32_t>(bytes_.size()) - row.at; };
    append(bytes_, dc, sizeof(std::int16_t) * row.blocks);
    append(bytes_, lengths, row.blocks);
    append(bytes_, range.masks, range.mask_bytes);
    row.values = here();
    append(bytes_, range.nibbles + range.first_value / 2, (row.odd + range.values + 1) / 2);
    row.escapes = here();
    append(bytes_, range.escapes, range.escaped);
    bytes_.resize((bytes_.size() + 1) / 2 * 2);
    row.wide = here();
    for (std::size_t k = 0; k < range.wide; ++k) {
        append(bytes_, range.wide_end - 2 * (k + 1), sizeof(std::int16_t));
    }
    rows_.push_back(row);
    return sizeof head_ + sizeof(DctCropRow) * rows_.size() + bytes_.size() <= most;
}

}  // namespace stoker

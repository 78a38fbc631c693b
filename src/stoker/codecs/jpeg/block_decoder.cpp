// Keeps the samples that a box needs (plane_plan.h) in a ring of rows.
#include "stoker/codecs/jpeg/block_decoder.h"

#include <algorithm>

namespace stoker {
namespace {

// Kernels read beyond the samples that they use, and smooth upsampling reads one sample to the left.
constexpr std::ptrdiff_t kMargin = 64;

void repeat(const std::uint8_t* samples, int scale, int phase, int count, std::uint8_t* out) {
    for (int x = 0; x < count; ++x) {
        out[x] = samples[(x + phase) / scale];
    }
}

void interleave(const std::uint8_t* const (&planes)[3], int count, std::uint8_t* rgb) {
    for (int x = 0; x < count; ++x) {
        for (int c = 0; c < 3; ++c) {
            rgb[3 * x + c] = planes[c][x];
        }
    }
}

}  // namespace

std::uint8_t* BlockDecoder::Plane::row(int y) {
    return reinterpret_cast<std::uint8_t*>(samples.data()) + kMargin + (y % ring_rows) * stride;
}

void BlockDecoder::plan(const JpegFrame& frame, int c, const Box& box, int shrink, Plane& plane) {
    const FrameComponent& component = frame.component[JpegFrame::at(c)];
    static_cast<PlanePlan&>(plane) = plan_plane(frame, component, box, shrink);
    plane.ring_rows = 2 * plane.side * component.v;
    plane.done = plane.first_row / plane.side * plane.side;
    plane.stride = (std::ptrdiff_t{kBlockSide} * (plane.blocks + 3) + kMargin - 1) / kMargin * kMargin + 2 * kMargin;
    plane.samples.resize(static_cast<std::size_t>(plane.ring_rows * plane.stride + 2 * kMargin));
    const bool direct = plane.scale_h == 1 && plane.scale_v == 1;
    const auto line = static_cast<std::size_t>(box.width + 3 * kMargin);
    if (!direct && plane.line.size() < line) {
        plane.line.resize(line);
    }
}

void BlockDecoder::decode_rows(const JpegFrame& frame, int c, int block_row, BlockRows& blocks) {
    Plane& plane = planes_[c];
    const int top = plane.side * block_row;
    if (!plane.needs(block_row)) {
        return;
    }
    const std::uint16_t* quant = frame.component[JpegFrame::at(c)].quant.data();
    const std::int16_t* coefficients = blocks.blocks(c, block_row, plane.first_block, plane.blocks);
    if (plane.side == kBlockSide) {
        kernels_.inverse_dct(coefficients, quant, plane.blocks, plane.row(top), plane.stride);
    } else {
        scaled_inverse_dct(coefficients, quant, plane.side, plane.blocks, plane.row(top), plane.stride);
    }
    if (plane.smooth_h) {  // repeat the edge samples beyond the image's left and right edges
        const int end = plane.side * (plane.first_block + plane.blocks);
        for (int y = top; y < top + plane.side; ++y) {
            std::uint8_t* row = plane.row(y);
            if (plane.first_block == 0) {
                row[-1] = row[0];
            }
            if (end >= plane.width) {
                std::uint8_t* last = plane.sample(y, plane.width - 1);
                last[1] = last[0];
            }
        }
    }
    plane.done = top + plane.side;
}

bool BlockDecoder::ready(const JpegFrame& frame, int y) const {
    for (int c = 0; c < frame.components; ++c) {
        const Plane& plane = planes_[c];
        const RowPair rows = row_pair(plane, y);
        if (std::max(rows.near, rows.far) >= plane.done) {
            return false;
        }
    }
    return true;
}

// Upsamples image row y, beginning at column box.left.
const std::uint8_t* BlockDecoder::image_row(Plane& plane, int y, const Box& box) {
    const RowPair rows = row_pair(plane, y);
    const int first = box.left / plane.scale_h;
    const std::uint8_t* near = plane.sample(rows.near, first);
    const std::uint8_t* far = plane.sample(rows.far, first);
    const int phase = box.left % plane.scale_h;
    const int count = (box.left + box.width - 1) / plane.scale_h - first + 1;
    std::uint8_t* line = plane.line.data();
    if (plane.smooth_h && plane.smooth_v) {
        kernels_.upsample_h2v2(near, far, count, line);
        return line + phase;
    }
    if (plane.smooth_h) {
        kernels_.upsample_h2(near, count, line);
        return line + phase;
    }
    if (plane.smooth_v) {
        kernels_.upsample_v2(near, far, y % 2 == 0 ? 1 : 2, count, line);
        return line;
    }
    if (plane.scale_h == 1) {
        return near;
    }
    repeat(near, plane.scale_h, phase, box.width, line);
    return line;
}

void BlockDecoder::write_row(const JpegFrame& frame, int y, const Box& box, std::uint8_t* out) {
    const std::uint8_t* rows[3] = {};
    for (int c = 0; c < frame.components; ++c) {
        rows[c] = image_row(planes_[c], y, box);
    }
    switch (frame.color) {
        case FrameColor::grey:
            kernels_.grey_to_rgb(rows[0], box.width, out);
            break;
        case FrameColor::ycc:
            kernels_.ycc_to_rgb(rows[0], rows[1], rows[2], box.width, out);
            break;
        case FrameColor::rgb:
            interleave(rows, box.width, out);
            break;
    }
}

void BlockDecoder::decode(const JpegFrame& frame, BlockRows& blocks, const Region& region, RowSink& sink) {
    const Box box = shrunk_box(region.box, region.shrink);
    int mcu_row = frame.mcus_high;
    int end_row = 0;
    int first_column = frame.mcus_wide;
    int end_column = 0;
    for (int c = 0; c < frame.components; ++c) {
        plan(frame, c, box, region.shrink, planes_[c]);
        const FrameComponent& component = frame.component[JpegFrame::at(c)];
        end_row = std::max(end_row, planes_[c].last_row / (planes_[c].side * component.v) + 1);
        first_column = std::min(first_column, planes_[c].first_block / component.h);
        end_column = std::max(end_column, (planes_[c].first_block + planes_[c].blocks - 1) / component.h + 1);
        mcu_row = std::min(mcu_row, planes_[c].first_row / (planes_[c].side * frame.component[JpegFrame::at(c)].v));
    }
    blocks.want(end_row, first_column, end_column);
    sink.start(box.height, box.width, 3);
    for (int y = box.top; y < box.top + box.height; ++mcu_row) {
        for (int c = 0; c < frame.components; ++c) {
            const int v = frame.component[JpegFrame::at(c)].v;
            for (int i = 0; i < v; ++i) {
                decode_rows(frame, c, mcu_row * v + i, blocks);
            }
        }
        for (; y < box.top + box.height && ready(frame, y); ++y) {
            write_row(frame, y, box, sink.row(y - box.top));
        }
    }
}

}  // namespace stoker

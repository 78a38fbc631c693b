// Which samples a box needs, the ring of sample rows, and the choice among upsampling methods, which is
// libjpeg's: smooth for ratios of 2, by repetition for others, and for components no more than two wide.
#include "stoker/codecs/block_pixels.h"

#include <algorithm>

namespace stoker {
namespace {

// Kernels read beyond the samples they use, and smooth upsampling reads one to the left.
constexpr std::ptrdiff_t kMargin = 64;

// The sample rows that image row y is made of: itself and, where smooth, its neighbour on that side.
struct RowPair {
    int near;
    int far;
};

RowPair row_pair(int scale_v, bool smooth, int y, int rows) {
    const int near = y / scale_v;
    if (!smooth) {
        return {near, near};
    }
    return {near, std::clamp(y % 2 == 0 ? near - 1 : near + 1, 0, rows - 1)};
}

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

std::uint8_t* BlockPixels::Plane::row(int y) {
    return reinterpret_cast<std::uint8_t*>(samples.data()) + kMargin + (y % ring_rows) * stride;
}

void BlockPixels::plan_component(const Frame& frame, const FrameComponent& component, const Box& box, Plane& plane) {
    plane.scale_h = frame.h_max / component.h;
    plane.scale_v = frame.v_max / component.v;
    const bool wide = component.width > 2;
    plane.smooth_h = plane.scale_h == 2 && plane.scale_v <= 2 && wide;
    plane.smooth_v = plane.scale_v == 2 && (plane.scale_h == 1 || plane.smooth_h);
    const int around_h = plane.smooth_h ? 1 : 0;
    const int around_v = plane.smooth_v ? 1 : 0;
    plane.first_row = std::max(box.top / plane.scale_v - around_v, 0);
    plane.last_row = std::min((box.top + box.height - 1) / plane.scale_v + around_v, component.height - 1);
    const int first = std::max(box.left / plane.scale_h - around_h, 0);
    const int last = std::min((box.left + box.width - 1) / plane.scale_h + around_h, component.width - 1);
    plane.first_block = first / kBlockSide;
    plane.blocks = last / kBlockSide - plane.first_block + 1;
    plane.ring_rows = 2 * kBlockSide * component.v;
    plane.done = plane.first_row / kBlockSide * kBlockSide;
    plane.stride = (std::ptrdiff_t{kBlockSide} * plane.blocks + kMargin - 1) / kMargin * kMargin + 2 * kMargin;
    plane.samples.resize(static_cast<std::size_t>(plane.ring_rows * plane.stride + 2 * kMargin));
    const bool direct = plane.scale_h == 1 && plane.scale_v == 1;
    const auto line = static_cast<std::size_t>(box.width + 3 * kMargin);
    if (!direct && plane.line.size() < line) {
        plane.line.resize(line);
    }
}

void BlockPixels::plan(const Frame& frame, const Box& box) {
    for (int c = 0; c < frame.components; ++c) {
        plan_component(frame, frame.component[Frame::at(c)], box, planes_[c]);
    }
}

void BlockPixels::make_rows(const Frame& frame, int c, int block_row, BlockRows& blocks) {
    Plane& plane = planes_[c];
    if (kBlockSide * block_row > plane.last_row || kBlockSide * (block_row + 1) <= plane.first_row) {
        return;
    }
    const FrameComponent& component = frame.component[Frame::at(c)];
    const std::int16_t* coefficients = blocks.blocks(c, block_row, plane.first_block, plane.blocks);
    const int top = kBlockSide * block_row;
    kernels_.inverse_dct(coefficients, component.quant.data(), plane.blocks, plane.row(top), plane.stride);
    if (plane.smooth_h) {  // beyond the image's edges its last samples go on
        const int end = kBlockSide * (plane.first_block + plane.blocks);
        for (int y = top; y < top + kBlockSide; ++y) {
            std::uint8_t* row = plane.row(y);
            if (plane.first_block == 0) {
                row[-1] = row[0];
            }
            if (end >= component.width) {
                std::uint8_t* last = plane.sample(y, component.width - 1);
                last[1] = last[0];
            }
        }
    }
    plane.done = top + kBlockSide;
}

bool BlockPixels::ready(const Frame& frame, int y) const {
    for (int c = 0; c < frame.components; ++c) {
        const Plane& plane = planes_[c];
        const RowPair rows = row_pair(plane.scale_v, plane.smooth_v, y, frame.component[Frame::at(c)].height);
        if (std::max(rows.near, rows.far) >= plane.done) {
            return false;
        }
    }
    return true;
}

// Image row y, from column box.left on.
const std::uint8_t* BlockPixels::image_row(const FrameComponent& component, Plane& plane, int y, const Box& box) {
    const RowPair rows = row_pair(plane.scale_v, plane.smooth_v, y, component.height);
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

void BlockPixels::draw(const Frame& frame, BlockRows& blocks, const Box& box, RowSink& sink) {
    plan(frame, box);
    sink.start(box.height, box.width, 3);
    int mcu_row = frame.mcus_high;
    for (int c = 0; c < frame.components; ++c) {
        mcu_row = std::min(mcu_row, planes_[c].first_row / (kBlockSide * frame.component[Frame::at(c)].v));
    }
    for (int y = box.top; y < box.top + box.height; ++mcu_row) {
        for (int c = 0; c < frame.components; ++c) {
            const int v = frame.component[Frame::at(c)].v;
            for (int i = 0; i < v; ++i) {
                make_rows(frame, c, mcu_row * v + i, blocks);
            }
        }
        for (; y < box.top + box.height && ready(frame, y); ++y) {
            std::uint8_t* out = sink.row(y - box.top);
            const std::uint8_t* rows[3] = {};
            for (int c = 0; c < frame.components; ++c) {
                rows[c] = image_row(frame.component[Frame::at(c)], planes_[c], y, box);
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
    }
}

}  // namespace stoker

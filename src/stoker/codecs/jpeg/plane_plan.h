// Which samples of a component a box of the image needs, and how they are upsampled: smooth for the ratios 2x1, 1x2 and
// 2x2; repetition for other ratios, and for 2x1 and 2x2 if the component is at most two samples wide. libjpeg decides
// in the same way.
#pragma once

#include <algorithm>

#include "stoker/base/image.h"
#include "stoker/codecs/jpeg/jpeg_frame.h"

namespace stoker {

struct PlanePlan {
    int side = kBlockSide;  // samples per block in each direction, after shrinking
    int width = 0;          // of the whole component, in samples of this size
    int height = 0;
    int scale_h = 1;  // pixels per sample
    int scale_v = 1;
    bool smooth_h = false;
    bool smooth_v = false;
    int first_row = 0;  // sample rows that the box needs
    int last_row = 0;
    int first_block = 0;  // block columns that the box needs: first_block ... first_block + blocks - 1
    int blocks = 0;

    // True if the box needs a row of this block row.
    bool needs(int block_row) const { return side * block_row <= last_row && side * (block_row + 1) > first_row; }
};

// `box` is a part of the image at 1/shrink of its size.
PlanePlan plan_plane(const JpegFrame& frame, const FrameComponent& component, const Box& box, int shrink);

// The sample rows for one image row: the row itself and, with smooth upsampling, its nearer neighbour.
struct RowPair {
    int near;
    int far;
};
inline RowPair row_pair(const PlanePlan& plane, int y) {  // called several times for each row: must be inlined
    const int near = y / plane.scale_v;
    if (!plane.smooth_v) {
        return {near, near};
    }
    return {near, std::clamp(y % 2 == 0 ? near - 1 : near + 1, 0, plane.height - 1)};
}

}  // namespace stoker

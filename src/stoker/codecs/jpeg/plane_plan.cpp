#include "stoker/codecs/jpeg/plane_plan.h"

#include <algorithm>

namespace stoker {

PlanePlan plan_plane(const JpegFrame& frame, const FrameComponent& component, const Box& box, int shrink) {
    // Chroma that is already stored at a fraction of the size is shrunk less, by the same factor in both directions.
    const int ratio_h = frame.h_max / component.h;
    const int ratio_v = frame.v_max / component.v;
    int already = 1;
    while (already < shrink && ratio_h % (2 * already) == 0 && ratio_v % (2 * already) == 0) {
        already *= 2;
    }
    PlanePlan plane;
    plane.side = kBlockSide / shrink * already;
    plane.width = (component.width * plane.side + kBlockSide - 1) / kBlockSide;
    plane.height = (component.height * plane.side + kBlockSide - 1) / kBlockSide;
    plane.scale_h = ratio_h / already;
    plane.scale_v = ratio_v / already;
    const bool wide = plane.width > 2;
    plane.smooth_h = plane.scale_h == 2 && plane.scale_v <= 2 && wide;
    plane.smooth_v = plane.scale_v == 2 && (plane.scale_h == 1 || plane.smooth_h);
    const RowPair bottom = row_pair(plane, box.top + box.height - 1);
    plane.first_row = std::max(box.top / plane.scale_v - (plane.smooth_v ? 1 : 0), 0);
    plane.last_row = std::max(bottom.near, bottom.far);
    const int around = plane.smooth_h ? 1 : 0;
    const int first = std::max(box.left / plane.scale_h - around, 0);
    const int last = std::min((box.left + box.width - 1) / plane.scale_h + around, plane.width - 1);
    plane.first_block = first / plane.side;
    plane.blocks = last / plane.side - plane.first_block + 1;
    return plane;
}

}  // namespace stoker

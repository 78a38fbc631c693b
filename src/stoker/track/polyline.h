// Long series made short enough to draw: smoothed, and thinned to what a column of pixels can show.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace stoker {

struct CurvePoint {
    double x = 0;
    double y = 0;  // not finite: a gap in the line
};

// Each point's y as the mean of those around it, with weights that fall by e within `window` points to both sides, so
// that the line does not lag behind. Gaps stay.
std::vector<CurvePoint> smoothed(std::span<const CurvePoint> points, double window);

// At most about three points in each of `columns` of equal width, least and largest among them, so that no peak is
// lost. `points` are by ascending x.
std::vector<CurvePoint> thinned(std::span<const CurvePoint> points, std::size_t columns);

}  // namespace stoker

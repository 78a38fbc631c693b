// Smooths series, and thins them to what columns of pixels can show.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace stoker {

struct CurvePoint {
    double x = 0;
    double y = 0;  // not finite: a gap in the line
};

// Exponential smoothing in both directions, so the line does not lag: weights fall by a factor e within `window`
// points. Gaps stay.
std::vector<CurvePoint> smoothed(std::span<const CurvePoint> points, double window);

// At most about three points in each of `columns` of equal width. The smallest and the largest are kept, so no peak is
// lost. `points` are sorted by x.
std::vector<CurvePoint> thinned(std::span<const CurvePoint> points, std::size_t columns);

}  // namespace stoker

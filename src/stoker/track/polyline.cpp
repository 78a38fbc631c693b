// A column keeps its smallest and its largest point in their order, and at most one gap.
#include "stoker/track/polyline.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace stoker {
namespace {

class Column {
  public:
    void add(const CurvePoint& point) {
        if (!std::isfinite(point.y)) {
            gap_ = point;
            return;
        }
        least_ = least_ && least_->y <= point.y ? *least_ : point;
        most_ = most_ && most_->y >= point.y ? *most_ : point;
    }

    void flush(std::vector<CurvePoint>& out) {
        if (least_) {
            const auto [first, second] = std::minmax(*least_, *most_, [](auto& a, auto& b) { return a.x < b.x; });
            out.push_back(first);
            if (second.x > first.x) {
                out.push_back(second);
            }
        }
        if (gap_) {
            out.push_back(*gap_);
        }
        *this = {};
    }

  private:
    std::optional<CurvePoint> least_, most_, gap_;
};

}  // namespace

std::vector<CurvePoint> smoothed(std::span<const CurvePoint> points, double window) {
    struct Sum {
        double values = 0;
        double weights = 0;
        void add(double keep, double value) {
            const bool counts = std::isfinite(value);
            values = keep * values + (counts ? value : 0);
            weights = keep * weights + (counts ? 1 : 0);
        }
    };
    const double keep = std::exp(-1 / std::max(window, 1e-3));
    std::vector<Sum> before(points.size());
    Sum sum;
    for (std::size_t i = 0; i < points.size(); ++i) {
        sum.add(keep, points[i].y);
        before[i] = sum;
    }
    std::vector<CurvePoint> out(points.begin(), points.end());
    sum = {};
    for (std::size_t i = points.size(); i-- > 0;) {
        const double y = points[i].y;
        sum.add(keep, y);
        if (std::isfinite(y)) {
            out[i].y = (before[i].values + sum.values - y) / (before[i].weights + sum.weights - 1);
        }
    }
    return out;
}

std::vector<CurvePoint> thinned(std::span<const CurvePoint> points, std::size_t columns) {
    if (points.size() <= 2 * columns || columns == 0) {
        return {points.begin(), points.end()};
    }
    const double low = points.front().x;
    const double width = (points.back().x - low) / static_cast<double>(columns);
    std::vector<CurvePoint> out;
    Column column;
    double end = low + width;
    for (const CurvePoint& point : points) {
        if (point.x > end) {
            column.flush(out);
            end = width > 0 ? low + (std::floor((point.x - low) / width) + 1) * width : point.x;
        }
        column.add(point);
    }
    column.flush(out);
    return out;
}

}  // namespace stoker

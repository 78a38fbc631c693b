// A column keeps its least and its largest point in their order. Between gaps the line is broken, once a column at
// most.
#include "stoker/track/polyline.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace stoker {
namespace {

class Column {
  public:
    void add(const Point& point) {
        if (!std::isfinite(point.y)) {
            gap_ = point;
            return;
        }
        least_ = least_ && least_->y <= point.y ? *least_ : point;
        most_ = most_ && most_->y >= point.y ? *most_ : point;
    }

    void flush(std::vector<Point>& out) {
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
    std::optional<Point> least_, most_, gap_;
};

}  // namespace

std::vector<Point> smoothed(std::span<const Point> points, double window) {
    std::vector<Point> out(points.begin(), points.end());
    const double keep = std::exp(-1 / std::max(window, 1e-3));
    double sum = 0;
    double weight = 0;
    for (Point& point : out) {
        if (std::isfinite(point.y)) {
            sum = keep * sum + point.y;
            weight = keep * weight + 1;
            point.y = sum / weight;
        }
    }
    return out;
}

std::vector<Point> thinned(std::span<const Point> points, std::size_t columns) {
    if (points.size() <= 2 * columns || columns == 0) {
        return {points.begin(), points.end()};
    }
    const double low = points.front().x;
    const double width = (points.back().x - low) / static_cast<double>(columns);
    std::vector<Point> out;
    Column column;
    double end = low + width;
    for (const Point& point : points) {
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

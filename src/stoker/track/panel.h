// One diagram of an SVG file: axes with round values, grid, labels, and series of points as lines.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/track/polyline.h"

namespace stoker {

enum class Look {
    line,
    light,  // behind the others; its outliers do not stretch the axis
    dashed,
};

struct Series {
    std::string name;                // of its tooltip
    std::vector<CurvePoint> points;  // by ascending x
    std::size_t color = 0;           // a class "c0", "c1", ... of the file's style
    Look look = Look::line;
    bool markers = false;  // a dot for each point
};

struct Panel {
    std::string title;
    std::string x_name;
    std::vector<Series> series = {};
    bool whole_x = false;             // as epochs are
    std::string empty = {};           // said where there is no point to draw
    std::string suffix = {};          // of a value in a tooltip: " %"
    std::optional<double> most = {};  // of a y that can be: where the axis ends at the latest
    double factor = 1;                // from a point's y to what is shown: 100 for percent
};

struct PanelBox {
    double x = 0;
    double y = 0;
    double width = 0;
    double height = 0;
};

// Series are thinned to `columns` at most.
std::string panel_svg(const Panel& panel, const PanelBox& box, std::size_t columns);

// Text as XML holds it: five letters escaped; what is no UTF-8, or no text, is U+FFFD.
std::string xml_text(std::string_view text);

}  // namespace stoker

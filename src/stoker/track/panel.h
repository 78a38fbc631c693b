// One chart of an SVG file: axes, grid, labels, and series of points as lines.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/track/polyline.h"

namespace stoker {

enum class Look {
    line,
    light,  // behind the others; outliers after the first points do not extend the axis
    dashed,
};

struct Series {
    std::string name;                // for the tooltip
    std::vector<CurvePoint> points;  // by ascending x
    std::size_t color = 0;           // a class "c0", "c1", ... of the file's style
    Look look = Look::line;
    bool markers = false;  // a dot for each point
};

struct Panel {
    std::string title;
    std::string x_name;
    std::vector<Series> series = {};
    bool whole_x = false;             // x values are whole numbers
    std::string empty = {};           // text if nothing can be drawn
    std::string suffix = {};          // unit of a value in a tooltip: " %"
    std::optional<double> most = {};  // largest possible y; the axis does not go beyond it
    double factor = 1;                // displayed value = factor * y: 100 for percent
    bool may_be_log = false;          // a logarithmic axis if a linear one would press most points to the bottom
};

struct PanelBox {
    double x = 0;
    double y = 0;
    double width = 0;
    double height = 0;
};

// Series are thinned to at most `columns` columns.
std::string panel_svg(const Panel& panel, const PanelBox& box, std::size_t columns);

// Text escaped for XML. Invalid UTF-8 and control characters become U+FFFD.
std::string xml_text(std::string_view text);

}  // namespace stoker

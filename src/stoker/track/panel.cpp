// Colours are CSS classes, defined in the file's style for light and dark mode. Coordinates have one decimal, because
// they are most of the file.
#include "stoker/track/panel.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <limits>

#include "stoker/base/printable.h"
#include "stoker/base/utf8.h"
#include "stoker/track/axis.h"

namespace stoker {
namespace {

struct Range {
    double low = std::numeric_limits<double>::infinity();
    double high = -std::numeric_limits<double>::infinity();

    void add(double value) {
        low = std::min(low, value);
        high = std::max(high, value);
    }
    bool empty() const { return low > high; }
};

std::vector<double> finite_values(const std::vector<CurvePoint>& points) {
    std::vector<double> values;
    for (const CurvePoint& point : points) {
        if (std::isfinite(point.y)) {
            values.push_back(point.y);
        }
    }
    return values;
}

// Adds the range from the 1st to the 99th percentile, and the first points: the beginning of a loss is not an outlier.
void add_percentiles(Range& range, const std::vector<CurvePoint>& points) {
    constexpr std::size_t kFirst = 3;
    std::vector<double> values = finite_values(points);
    if (values.empty()) {
        return;
    }
    for (std::size_t i = 0; i < std::min(values.size(), std::max(values.size() / 100, kFirst)); ++i) {
        range.add(values[i]);
    }
    std::ranges::sort(values);
    range.add(values[values.size() / 100]);
    range.add(values[values.size() - 1 - values.size() / 100]);
}

Range x_range(const Panel& panel) {
    Range range;
    for (const Series& series : panel.series) {
        for (const CurvePoint& point : series.points) {
            range.add(point.x);
        }
    }
    return range;
}

Range y_range(const Panel& panel) {
    Range range;
    for (const Series& series : panel.series) {
        if (series.look == Look::light) {
            add_percentiles(range, series.points);
            continue;
        }
        for (const double value : finite_values(series.points)) {
            range.add(value);
        }
    }
    return range;
}

// True if a linear axis would show most points in its lowest hundredth.
bool needs_log(const Panel& panel, const Range& range) {
    std::vector<double> values;
    for (const Series& series : panel.series) {
        std::ranges::copy(finite_values(series.points), std::back_inserter(values));
    }
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return panel.may_be_log && range.low > 0 && *middle < range.high / 100;
}

Axis linear_axis(const Panel& panel, Range range) {
    constexpr double kNearZero = 0.4;  // the axis begins at 0 if that adds little
    const bool constant = range.low == range.high;
    if (range.low > 0 && (constant || range.low < kNearZero * range.high)) {
        range.low = 0;
        range.high *= constant ? 1.2 : 1;  // keeps a constant line off the frame
    }
    range.high = std::max(range.low, std::min(range.high, panel.most.value_or(range.high)));
    return make_axis(range.low * panel.factor, range.high * panel.factor, {.intervals = 4});
}

// Maps values to coordinates of the SVG.
struct Frame {
    PanelBox box;
    Axis x, y;
    double factor;

    double left(double value) const { return box.x + box.width * x.share(value); }
    double top(double value) const { return box.y + box.height * (1 - y.share(value * factor)); }
};

std::string coordinate(double value) {
    const std::string text = fmt::format("{:.1f}", std::clamp(value, -1e4, 1e4));
    return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

std::string path_data(const std::vector<CurvePoint>& points, const Frame& frame) {
    std::string data;
    bool on = false;
    for (std::size_t i = 0; i < points.size(); ++i) {
        if (!std::isfinite(points[i].y)) {
            on = false;
            continue;
        }
        // The middle points of a horizontal stretch are redundant.
        if (on && i + 1 < points.size() && points[i - 1].y == points[i].y && points[i].y == points[i + 1].y) {
            continue;
        }
        const bool alone = !on && (i + 1 == points.size() || !std::isfinite(points[i + 1].y));
        data += fmt::format("{}{} {}{}", on ? "L" : "M", coordinate(frame.left(points[i].x)),
                            coordinate(frame.top(points[i].y)), alone ? "h0" : "");  // is drawn as a dot
        on = true;
    }
    return data;
}

std::string series_svg(const Series& series, const Frame& frame, const Panel& panel, std::size_t columns) {
    const std::string data = path_data(thinned(series.points, columns), frame);
    if (data.empty()) {
        return "";
    }
    const char* look = series.look == Look::light ? " light" : series.look == Look::dashed ? " dashed" : "";
    std::string out = fmt::format(R"(<path class="line c{}{}" d="{}"><title>{}</title></path>)"
                                  "\n",
                                  series.color, look, data, xml_text(series.name));
    for (const CurvePoint& point : series.points) {
        if (series.markers && std::isfinite(point.y)) {
            out += fmt::format(
                R"(<circle class="dot d{}" cx="{}" cy="{}" r="2.5"><title>{}, {} {}: {:.4g}{}</title></circle>)"
                "\n",
                series.color, coordinate(frame.left(point.x)), coordinate(frame.top(point.y)), xml_text(series.name),
                panel.x_name, point.x, point.y * panel.factor, panel.suffix);
        }
    }
    return out;
}

std::string axes_svg(const Frame& frame) {
    const PanelBox& box = frame.box;
    std::string out = "<g class=\"grid\">";
    for (const Tick& tick : frame.y.ticks) {
        const double y = box.y + box.height * (1 - frame.y.share(tick.at));
        out += fmt::format(R"(<path d="M{} {}h{}"/>)", coordinate(box.x), coordinate(y), coordinate(box.width));
    }
    out += fmt::format(R"(</g><path class="axis" d="M{} {}h{})", coordinate(box.x), coordinate(box.y + box.height),
                       coordinate(box.width));
    for (const Tick& tick : frame.x.ticks) {
        out += fmt::format("M{} {}v4", coordinate(frame.left(tick.at)), coordinate(box.y + box.height));
    }
    out += "\"/>\n<g class=\"tick end\">";
    for (const Tick& tick : frame.y.ticks) {
        const double y = box.y + box.height * (1 - frame.y.share(tick.at)) + 4;
        out += fmt::format(R"(<text x="{}" y="{}">{}</text>)", coordinate(box.x - 6), coordinate(y), tick.label);
    }
    out += "</g><g class=\"tick middle\">";
    for (const Tick& tick : frame.x.ticks) {
        out += fmt::format(R"(<text x="{}" y="{}">{}</text>)", coordinate(frame.left(tick.at)),
                           coordinate(box.y + box.height + 17), tick.label);
    }
    return out + "</g>\n";
}

}  // namespace

std::string panel_svg(const Panel& panel, const PanelBox& box, std::size_t columns) {
    constexpr double kLeft = 50;
    constexpr double kRight = 20;
    constexpr double kTop = 28;
    constexpr double kBottom = 38;
    const PanelBox plot{box.x + kLeft, box.y + kTop, box.width - kLeft - kRight, box.height - kTop - kBottom};
    const Range xs = x_range(panel);
    const Range ys = y_range(panel);
    const bool log = !ys.empty() && needs_log(panel, ys);
    std::string out =
        fmt::format(R"(<text class="head" x="{}" y="{}">{}{}</text>)"
                    "\n",
                    coordinate(plot.x), coordinate(box.y + 16), xml_text(panel.title), log ? ", logarithmic" : "");
    if (xs.empty() || ys.empty()) {
        return out + fmt::format(R"(<text class="tick middle" x="{}" y="{}">{}</text>)"
                                 "\n",
                                 coordinate(plot.x + plot.width / 2), coordinate(plot.y + plot.height / 2),
                                 xml_text(panel.empty));
    }
    const Frame frame{plot, make_axis(xs.low, xs.high, {.intervals = 5, .whole = panel.whole_x, .tight = true}),
                      log ? make_log_axis(ys.low, ys.high) : linear_axis(panel, ys), panel.factor};
    out += axes_svg(frame);
    out +=
        fmt::format(R"(<text class="tick middle" x="{}" y="{}">{}</text>)"
                    "\n",
                    coordinate(plot.x + plot.width / 2), coordinate(plot.y + plot.height + 33), xml_text(panel.x_name));
    // A nested svg clips what leaves the plot, such as the peaks of a light line.
    out += fmt::format(R"(<svg x="{0}" y="{1}" width="{2}" height="{3}" viewBox="{0} {1} {2} {3}">)"
                       "\n",
                       coordinate(plot.x - 4), coordinate(plot.y - 4), coordinate(plot.width + 8),
                       coordinate(plot.height + 8));
    for (const Series& series : panel.series) {
        out += series_svg(series, frame, panel, columns);
    }
    return out + "</svg>\n";
}

std::string xml_text(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t length = utf8_sequence(text);
        if (length == 0 || is_control(utf8_code_point(text.substr(0, length)))) {
            out += "\xef\xbf\xbd";
        } else if (const std::size_t special = std::string_view("&<>\"'").find(text[0]);
                   special != std::string_view::npos) {
            constexpr std::string_view kNames[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
            out += kNames[special];
        } else {
            out += text.substr(0, length);
        }
        text.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return out;
}

}  // namespace stoker

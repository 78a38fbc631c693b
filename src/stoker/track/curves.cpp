// One run: training and validation in two colours. Several runs: a colour each, training dashed.
#include "stoker/track/curves.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <iterator>

#include "stoker/base/error.h"
#include "stoker/base/utf8.h"
#include "stoker/track/main_metric.h"
#include "stoker/track/panel.h"

namespace stoker {
namespace {

constexpr double kWidth = 900;
constexpr double kPanels = 540;  // height of the four panels together

// Colours that are distinguishable on light and dark backgrounds, also with red-green colour blindness.
constexpr const char* kStyle = R"(<style>
text{font-family:system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;fill:#24292f}
.sheet{fill:#fff}.name{font-size:16px;font-weight:600}.head{font-size:13px;font-weight:600}.key{font-size:12px}
.tick{font-size:11px;fill:#57606a}.tick text{fill:inherit}.end{text-anchor:end}.middle{text-anchor:middle}
.grid path{stroke:#e4e8ec}.axis{stroke:#8c959f;fill:none}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}.light{stroke-width:1;opacity:.3}
.dashed{stroke-dasharray:3.2 4.8}
.c0{stroke:#0b66c3}.c1{stroke:#d4500b}.c2{stroke:#11835b}.c3{stroke:#a8329a}.c4{stroke:#8a6d00}.c5{stroke:#d12f4f}
.c6{stroke:#0d8aa5}.c7{stroke:#6b4fd0}.c8{stroke:#5c7f10}.c9{stroke:#8b5a3c}.c10{stroke:#5d6b7a}.c11{stroke:#b03a6f}
.d0{fill:#0b66c3}.d1{fill:#d4500b}.d2{fill:#11835b}.d3{fill:#a8329a}.d4{fill:#8a6d00}.d5{fill:#d12f4f}
.d6{fill:#0d8aa5}.d7{fill:#6b4fd0}.d8{fill:#5c7f10}.d9{fill:#8b5a3c}.d10{fill:#5d6b7a}.d11{fill:#b03a6f}
@media(prefers-color-scheme:dark){
text{fill:#e6edf3}.sheet{fill:#0d1117}.tick{fill:#9aa5b1}.grid path{stroke:#232a33}.axis{stroke:#6e7681}.light{opacity:.4}
.c0{stroke:#58a6ff}.c1{stroke:#ff9a4d}.c2{stroke:#4cc38a}.c3{stroke:#e38bd8}.c4{stroke:#e3c04b}.c5{stroke:#ff7b93}
.c6{stroke:#4fc9e3}.c7{stroke:#a893ff}.c8{stroke:#a9cf54}.c9{stroke:#d3a07f}.c10{stroke:#aab6c3}.c11{stroke:#f08bb8}
.d0{fill:#58a6ff}.d1{fill:#ff9a4d}.d2{fill:#4cc38a}.d3{fill:#e38bd8}.d4{fill:#e3c04b}.d5{fill:#ff7b93}
.d6{fill:#4fc9e3}.d7{fill:#a893ff}.d8{fill:#a9cf54}.d9{fill:#d3a07f}.d10{fill:#aab6c3}.d11{fill:#f08bb8}
}
</style>
)";

template <typename Metric, typename X, typename Y>
std::vector<CurvePoint> points_of(const std::vector<Metric>& metrics, X x, Y y) {
    std::vector<CurvePoint> points;
    points.reserve(metrics.size());
    for (const Metric& metric : metrics) {
        points.push_back({static_cast<double>(x(metric)), y(metric)});
    }
    return points;
}

double value_or_gap(const std::optional<double>& value) {
    return value.value_or(std::nan(""));
}

std::vector<CurvePoint> step_points(const std::vector<StepLine>& steps, bool has_loss) {
    std::vector<CurvePoint> points;
    for (const StepLine& step : steps) {
        if (has_loss && step.loss) {
            points.push_back({static_cast<double>(step.step), *step.loss});
        } else if (!has_loss && step.seconds > 0 && step.samples > 0) {
            points.push_back({static_cast<double>(step.step), static_cast<double>(step.samples) / step.seconds});
        }
    }
    return points;
}

// The smoothed series, and behind it the unsmoothed one if `light`.
void add_steps(Panel& panel, const CurveRun& run, std::size_t color, bool has_loss, bool light) {
    constexpr double kWindows = 120;
    std::vector<CurvePoint> points = step_points(run.metrics.steps, has_loss);
    const double window = static_cast<double>(points.size()) / kWindows;
    std::vector<CurvePoint> smooth = smoothed(points, window);
    if (light && window > 1) {
        if (!run.metrics.peaks.empty()) {
            points = step_points(run.metrics.peaks, has_loss);
        }
        panel.series.push_back({.name = run.name, .points = std::move(points), .color = color, .look = Look::light});
    }
    panel.series.push_back({.name = run.name, .points = std::move(smooth), .color = color});
}

Panel step_panel(std::span<const CurveRun> runs) {
    const bool has_loss = std::ranges::any_of(runs, [](const CurveRun& run) {
        return std::ranges::any_of(run.metrics.steps, [](const StepLine& step) { return step.loss.has_value(); });
    });
    Panel panel{.title = has_loss ? "Training loss" : "Images a second",
                .x_name = "step",
                .whole_x = true,
                .empty = "no step yet",
                .may_be_log = has_loss};
    constexpr std::size_t kMostLight = 3;  // more would cover each other
    for (std::size_t i = 0; i < runs.size(); ++i) {
        add_steps(panel, runs[i], i, has_loss, runs.size() <= kMostLight);
    }
    std::stable_partition(panel.series.begin(), panel.series.end(),
                          [](const Series& series) { return series.look == Look::light; });
    return panel;
}

Panel rate_panel(std::span<const CurveRun> runs) {
    Panel panel{.title = "Learning rate", .x_name = "step", .whole_x = true, .empty = "no learning rate yet"};
    for (std::size_t i = 0; i < runs.size(); ++i) {
        auto points = points_of(runs[i].metrics.steps, std::mem_fn(&StepLine::step), std::mem_fn(&StepLine::lr));
        panel.series.push_back({.name = runs[i].name, .points = std::move(points), .color = i});
    }
    return panel;
}

bool few_epochs(std::span<const CurveRun> runs) {
    constexpr std::size_t kDots = 240;  // a dot with its tooltip takes about 100 bytes
    std::size_t epochs = 0;
    for (const CurveRun& run : runs) {
        epochs += run.metrics.epochs.size();
    }
    return 3 * epochs <= kDots;
}

// The line of validation skips epochs that were not evaluated.
std::vector<EpochResult> evaluated(std::vector<EpochResult> epochs) {
    std::erase_if(epochs, [](const EpochResult& at) { return !at.val_loss && !main_metric(at); });
    return epochs;
}

Panel loss_panel(std::span<const CurveRun> runs) {
    const bool one = runs.size() == 1;
    const bool markers = few_epochs(runs);
    Panel panel{.title = one ? "Loss by epoch" : "Loss by epoch: validation, dashed: training",
                .x_name = "epoch",
                .whole_x = true,
                .empty = "no epoch yet",
                .may_be_log = true};
    for (std::size_t i = 0; i < runs.size(); ++i) {
        const auto& epochs = runs[i].metrics.epochs;
        const auto epoch = std::mem_fn(&EpochResult::epoch);
        panel.series.push_back({.name = one ? "training" : runs[i].name + ", training",
                                .points = points_of(epochs, epoch, std::mem_fn(&EpochResult::train_loss)),
                                .color = i,
                                .look = one ? Look::line : Look::dashed,
                                .markers = markers});
        panel.series.push_back({.name = one ? "validation" : runs[i].name + ", validation",
                                .points = points_of(evaluated(epochs), epoch,
                                                    [](const EpochResult& at) { return value_or_gap(at.val_loss); }),
                                .color = one ? 1 : i,
                                .markers = markers});
    }
    return panel;
}

// The name of the metric that is drawn: that of the first run that has one.
std::string metric_of(std::span<const CurveRun> runs) {
    for (const CurveRun& run : runs) {
        for (const EpochResult& epoch : run.metrics.epochs) {
            if (const auto metric = main_metric(epoch)) {
                return metric->name;
            }
        }
    }
    return "accuracy";
}

// Runs whose metric is another one have no line.
Panel metric_panel(std::span<const CurveRun> runs) {
    const bool one = runs.size() == 1;
    const std::string name = metric_of(runs);
    Panel panel{.title = "Validation " + name, .x_name = "epoch", .whole_x = true, .empty = "no validation yet"};
    if (is_share(name)) {
        panel.title += ", %";
        panel.suffix = " %";
        panel.most = 1;
        panel.factor = 100;
    }
    const auto value = [&name](const EpochResult& at) {
        const auto metric = main_metric(at);
        return metric && metric->name == name ? metric->value : std::nan("");
    };
    for (std::size_t i = 0; i < runs.size(); ++i) {
        panel.series.push_back(
            {.name = one ? "validation" : runs[i].name,
             .points = points_of(evaluated(runs[i].metrics.epochs), std::mem_fn(&EpochResult::epoch), value),
             .color = one ? 1 : i,
             .markers = few_epochs(runs)});
    }
    return panel;
}

// Truncates a long name to `most` characters and an ellipsis.
std::string clipped(std::string_view name, std::size_t most) {
    std::string out;
    std::size_t letters = 0;
    for (; !name.empty() && letters < most; ++letters) {
        const std::size_t length = std::max<std::size_t>(utf8_sequence(name), 1);
        out += name.substr(0, length);
        name.remove_prefix(length);
    }
    return name.empty() ? out : out + "…";
}

struct Legend {
    std::string svg;
    double bottom = 0;
};

std::string best_of(const CurveRun& run) {
    std::optional<Metric> best;
    std::int64_t at = 0;
    for (const EpochResult& epoch : run.metrics.epochs) {
        const auto metric = main_metric(epoch);
        if (metric && std::isfinite(metric->value) && (!best || metric->better_than(*best))) {
            best = metric;
            at = epoch.epoch;
        }
    }
    if (!best) {
        return "";
    }
    // An accuracy needs no name.
    const std::string name = best->name == "accuracy" ? "" : best->name + " ";
    return is_share(best->name) ? fmt::format("best {}{:.2f} % in epoch {}", name, 100 * best->value, at)
                                : fmt::format("best {}{:.4g} in epoch {}", name, best->value, at);
}

// One entry per run, as many in a row as fit.
Legend legend_of(std::span<const CurveRun> runs) {
    std::vector<std::string> names = {"training", "validation"};
    if (runs.size() > 1) {
        names.clear();
        for (const CurveRun& run : runs) {
            const std::string best = best_of(run);
            names.push_back(clipped(run.name, 48) + (best.empty() ? "" : ": " + best));
        }
    }
    constexpr double kRow = 18;
    Legend legend{.svg = {}, .bottom = 46};
    double x = 16;
    for (std::size_t i = 0; i < names.size(); ++i) {
        const double width = 46 + 6.5 * static_cast<double>(names[i].size());
        if (x > 16 && x + width > kWidth) {
            x = 16;
            legend.bottom += kRow;
        }
        legend.svg += fmt::format(
            R"(<path class="line c{0}" d="M{1} {2}h18"/><circle class="d{0}" cx="{3}" cy="{2}" r="2.5"/><text class="key" x="{4}" y="{5}">{6}</text>)"
            "\n",
            i, x, legend.bottom - 4, x + 9, x + 24, legend.bottom, xml_text(names[i]));
        x += width;
    }
    return legend;
}

// The beginning of a file: its size, its style and its title.
std::string sheet_svg(const std::string& title, double height) {
    std::string out = fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" role="img" aria-label="{2}">)"
        "\n",
        kWidth, height, xml_text(title));
    out += kStyle;
    out += fmt::format(R"(<rect class="sheet" width="100%" height="100%"/><text class="name" x="16" y="24">{}</text>)"
                       "\n",
                       xml_text(title));
    return out;
}

}  // namespace

std::string curves_svg(std::span<const CurveRun> runs) {
    if (runs.empty() || runs.size() > kMaxCurveRuns) {
        throw InvalidArgument({.where = "curves",
                               .expected = fmt::format("1 to {} runs", kMaxCurveRuns),
                               .got = fmt::to_string(runs.size())});
    }
    std::string title = clipped(runs[0].name, 60);
    if (runs.size() > 1) {
        title = fmt::format("{} runs", runs.size());
    } else if (const std::string best = best_of(runs[0]); !best.empty()) {
        title += ": " + best;
    }
    const Legend legend = legend_of(runs);
    const double top = legend.bottom + 14;
    std::string out = sheet_svg(title, top + kPanels);
    out += legend.svg;
    const std::size_t columns = std::min<std::size_t>(384, 960 / runs.size());
    const Panel panels[] = {step_panel(runs), rate_panel(runs), loss_panel(runs), metric_panel(runs)};
    for (std::size_t i = 0; i < std::size(panels); ++i) {
        const PanelBox box{.x = kWidth / 2 * static_cast<double>(i % 2),
                           .y = top + kPanels / 2 * static_cast<double>(i / 2),
                           .width = kWidth / 2,
                           .height = kPanels / 2};
        out += panel_svg(panels[i], box, columns);
    }
    return out + "</svg>\n";
}

std::string panel_page_svg(const std::string& title, const Panel& panel) {
    constexpr double kTop = 40;
    constexpr std::size_t kColumns = 900;
    const PanelBox box{.x = 0, .y = kTop, .width = kWidth, .height = kPanels - kTop};
    return sheet_svg(title, kPanels) + panel_svg(panel, box, kColumns) + "</svg>\n";
}

}  // namespace stoker

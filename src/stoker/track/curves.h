// Curves of one or several runs as one SVG file for any browser, without scripts, fonts or other files. It follows the
// browser's light or dark mode. Long series are thinned, so the file stays small.
#pragma once

#include <span>
#include <string>

#include "stoker/track/metrics_file.h"
#include "stoker/track/panel.h"

namespace stoker {

struct CurveRun {
    std::string name;
    Metrics metrics;
};

inline constexpr std::size_t kMaxCurveRuns = 12;

// Four panels: loss by step (images per second if steps have no loss), learning rate, loss by epoch, the main metric
// by epoch (main_metric.h). Throws InvalidArgument unless there are 1 to kMaxCurveRuns runs.
std::string curves_svg(std::span<const CurveRun> runs);

// One chart with a title, as a file of the same look.
std::string panel_page_svg(const std::string& title, const Panel& panel);

}  // namespace stoker

// Curves of one run, or of several over each other, as one SVG file that any browser shows: no script, no font and no
// other file is needed, and it is light or dark as its reader's screen is. Long runs are thinned: the file stays small.
#pragma once

#include <span>
#include <string>

#include "stoker/track/metrics_file.h"

namespace stoker {

struct CurveRun {
    std::string name;
    Metrics metrics;
};

inline constexpr std::size_t kMaxCurveRuns = 12;

// Four panels: loss by step (images a second where steps have no loss), learning rate, loss by epoch, accuracy by
// epoch. 1 to kMaxCurveRuns runs. Throws InvalidArgument for any other number.
std::string curves_svg(std::span<const CurveRun> runs);

}  // namespace stoker

// Which differing fact explains a change: the table of facts names the phases that each changes.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "stoker/diagnose/comparison/comparison.h"

namespace stoker {

// What changed, as the ranking reads it.
struct ChangeShape {
    bool slower = true;
    PhaseSeconds parts = {};                       // of the change in this direction, by phase; they sum to 1
    double whole = 0;                              // seconds in a step, the sum of the changes in this direction
    std::array<double, kStages> stage_parts = {};  // likewise of the workers' time for a sample
    bool stages_known = false;
    bool stages_changed = false;  // by more than chance and busy cores would
    // Rules that began to fire where it became slower, or ceased to where it became faster.
    std::vector<std::string> rules = {};
};

// Sorted by score.
std::vector<RankedDifference> ranked(std::vector<Difference> differences, const ChangeShape& shape);

// Of `ranked`: the first that explains the change, and others for phases that those before do not change.
std::vector<std::size_t> causes_of(std::span<const RankedDifference> ranked, const ChangeShape& shape);

}  // namespace stoker

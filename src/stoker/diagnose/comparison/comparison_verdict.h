// The sentences about a comparison: its verdict in one line, and what to know of the measurement.
#pragma once

#include <string>
#include <vector>

#include "stoker/diagnose/comparison/comparison.h"

namespace stoker {

// From all other members.
std::string comparison_verdict(const Comparison& comparison);

// "data.workers 8 -> 1"
std::string difference_text(const Difference& difference);

struct Measurement {
    const RunRecords& a;
    const RunRecords& b;
    const std::vector<Phase>& dropped;  // that one of them is too short to have
    double drift_a = 0;                 // parts of a step
    double drift_b = 0;
    double taken_a = 0;  // shares of the cores' time that others took
    double taken_b = 0;
};

std::vector<std::string> comparison_notes(const Measurement& measurement);

}  // namespace stoker

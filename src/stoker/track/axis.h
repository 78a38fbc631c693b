// The axis of a drawing: a range that ends at round values, and the ticks between them with their labels.
#pragma once

#include <string>
#include <vector>

namespace stoker {

struct Tick {
    double at = 0;
    std::string label;
};

struct Axis {
    double low = 0;
    double high = 1;
    std::vector<Tick> ticks;

    // Where `value` lies, in [0, 1] of the range.
    double share(double value) const { return (value - low) / (high - low); }
};

struct AxisOptions {
    int intervals = 5;   // about as many
    bool whole = false;  // ticks at whole numbers alone
    bool tight = false;  // ends at `low` and `high`, not at round values
};

// From finite values `low` <= `high`; where they are equal, a range around them. Steps are 1, 2 or 5 times a power
// of 10.
Axis make_axis(double low, double high, const AxisOptions& options = {});

}  // namespace stoker

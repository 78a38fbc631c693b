// An axis of a chart: a range with round limits, and labelled ticks.
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
    bool log = false;  // then low > 0

    // The position of `value` in the range, from 0 to 1.
    double share(double value) const;
};

struct AxisOptions {
    int intervals = 5;   // approximate number
    bool whole = false;  // ticks only at whole numbers
    bool tight = false;  // limits are `low` and `high`, not round values
};

// For finite `low` <= `high`; equal values give a range around them. Steps are 1, 2 or 5 times a power of 10.
Axis make_axis(double low, double high, const AxisOptions& options = {});

// A logarithmic axis for 0 < `low` <= `high`: limits and ticks are powers of 10.
Axis make_log_axis(double low, double high);

}  // namespace stoker

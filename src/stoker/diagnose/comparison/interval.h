// A value with the interval in which it lies.
#pragma once

#include <cmath>

namespace stoker {

// Holds the true value with a probability of 95 %.
struct Interval {
    double low = 0;
    double expected = 0;
    double high = 0;

    bool known() const { return std::isfinite(low) && std::isfinite(high); }  // false: too few steps
};

}  // namespace stoker

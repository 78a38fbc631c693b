// Statistics of repeated measurements: medians, and the interval in which the true median of paired ratios lies.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace stoker {

// Throws InvalidArgument for no values.
double median(std::vector<double> values);

// The value below which the share `p` in [0, 1] of the values lies, interpolated linearly. Throws InvalidArgument for
// no values.
double quantile(std::vector<double> values, double p);

// A median with an interval that holds the true one with a probability of at least 95 %.
struct Estimate {
    double low = 1;
    double median = 1;
    double high = 1;

    // False for the median of fewer than six values: its interval is unbounded.
    bool has_interval() const { return std::isfinite(low) && std::isfinite(high); }
};

// Assumes of the values only that they are independent. Throws InvalidArgument for no values.
Estimate median_interval(std::vector<double> values);

enum class Decision : std::uint8_t { open, better, worse };

// `better` once the whole interval is above 1 + margin, `worse` once it is below that.
Decision decide(const Estimate& ratio, double margin);

}  // namespace stoker

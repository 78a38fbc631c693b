// Statistics of repeated measurements: medians, and the interval in which the true median of paired ratios lies.
#pragma once

#include <cstdint>
#include <vector>

namespace stoker {

// Of at least one value.
double median(std::vector<double> values);

// The value below which the share `p` in [0, 1] of at least one value lies, interpolated linearly.
double quantile(std::vector<double> values, double p);

// A median with an interval that holds the true one with a probability of 95 %.
struct Estimate {
    double low = 1;
    double median = 1;
    double high = 1;
};

// The percentile bootstrap of the median of at least one value. The same values give the same interval.
Estimate bootstrap_median(const std::vector<double>& values, std::uint64_t seed = 1);

enum class Decision : std::uint8_t { open, better, worse };

// `better` once the whole interval lies above 1 + margin, `worse` once it lies below that.
Decision decide(const Estimate& ratio, double margin);

}  // namespace stoker

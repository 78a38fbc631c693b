// Figures that benchmarks report: medians over rounds, and what the system says this process used.
#pragma once

#include <vector>

namespace stoker::cli {

double median(std::vector<double> values);

// Processor time of all threads so far, in user and kernel mode.
double cpu_seconds();

// The most resident memory since this program was started, in MiB; 0 where /proc does not tell.
double peak_rss_mb();

}  // namespace stoker::cli

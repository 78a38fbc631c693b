// Work over a range on all cores with a progress bar: verifying a data set, drawing one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/terminal/progress.h"

namespace stoker::cli {

struct RangeWork {
    std::string label;  // before the bar: "verify"
    std::string unit;   // of what is counted: "samples"
    std::int64_t count = 0;
    std::int64_t grain = 1;  // at most this many a call
};

// Calls work(begin, end) from as many threads as this process may use cores. Throws what the piece
// with the lowest index threw.
void run_parallel(const RangeWork& range, ProgressBar& progress,
                  const std::function<void(std::int64_t, std::int64_t)>& work);

}  // namespace stoker::cli

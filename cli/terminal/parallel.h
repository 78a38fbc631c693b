// Work over a range of indices on all cores, with a progress bar.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/terminal/progress.h"

namespace stoker::cli {

struct RangeWork {
    std::string label;  // before the bar: "verify"
    std::string unit;   // "samples"
    std::int64_t count = 0;
    std::int64_t grain = 1;  // indices per call, at most
};

// Calls work(begin, end) from one thread per usable core. If several pieces throw, the exception of the piece with the
// lowest index is rethrown.
void run_parallel(const RangeWork& range, ProgressBar& progress,
                  const std::function<void(std::int64_t, std::int64_t)>& work);

}  // namespace stoker::cli

// One thread per core for the pieces, a lock around the progress bar.
#include "cli/terminal/parallel.h"

#include <mutex>

#include "stoker/base/cpu_cores.h"
#include "stoker/base/parallel_for.h"

namespace stoker::cli {

void run_parallel(const RangeWork& range, ProgressBar& progress,
                  const std::function<void(std::int64_t, std::int64_t)>& work) {
    std::mutex mutex;
    std::int64_t done = 0;
    const int threads = cpu_cores().usable;
    parallel_for(threads, range.count, range.grain, [&](std::int64_t begin, std::int64_t end) {
        work(begin, end);
        const std::lock_guard lock(mutex);
        done += end - begin;
        progress.update({.label = range.label,
                         .done = done,
                         .total = range.count,
                         .amount = static_cast<double>(done),
                         .unit = range.unit});
    });
    progress.clear();
}

}  // namespace stoker::cli

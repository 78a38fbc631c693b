// A thread pool for the pieces, a lock around the bar.
#include "cli/terminal/parallel.h"

#include <algorithm>
#include <chrono>
#include <mutex>

#include "stoker/base/core_budget.h"
#include "stoker/base/thread_pool.h"

namespace stoker::cli {

void run_parallel(const RangeWork& range, ProgressBar& progress,
                  const std::function<void(std::int64_t, std::int64_t)>& work) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    std::mutex mutex;
    std::int64_t done = 0;
    ThreadPool pool(read_core_budget().usable);
    pool.parallel_for(range.count, range.grain, [&](std::int64_t begin, std::int64_t end) {
        work(begin, end);
        const std::lock_guard lock(mutex);
        done += end - begin;
        const double seconds = std::max(std::chrono::duration<double>(Clock::now() - start).count(), 1e-9);
        const double rate = static_cast<double>(done) / seconds;
        progress.update(range.label, done, range.count, rate, range.unit,
                        static_cast<double>(range.count - done) / rate);
    });
    progress.clear();
}

}  // namespace stoker::cli

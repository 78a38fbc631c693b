// Workers that take tasks from one bounded queue. parallel_for keeps its own count of pieces under
// way, so that several callers may share a pool.
#include "stoker/base/thread_pool.h"

#include <algorithm>
#include <condition_variable>
#include <fmt/format.h>
#include <limits>
#include <system_error>
#include <utility>

#include "stoker/base/error.h"

namespace stoker {

ThreadPool::ThreadPool(int threads) : tasks_(static_cast<std::size_t>(std::max(threads, 1)) * 2) {
    const auto serve = [this] {
        while (auto task = tasks_.pop()) {
            (*task)();
        }
    };
    try {
        for (int i = 0; i < std::max(threads, 1); ++i) {
            threads_.emplace_back(serve);
        }
    } catch (const std::system_error& error) {
        tasks_.close();  // or the threads already started would be joined for ever
        throw IoError({.where = "thread pool",
                       .expected = fmt::format("{} threads", threads),
                       .got = fmt::format("{} ({})", threads_.size(), error.what()),
                       .hint = "use fewer workers, or raise the limit on processes"});
    }
}

ThreadPool::~ThreadPool() {
    tasks_.close();
}

void ThreadPool::parallel_for(std::int64_t count, std::int64_t grain,
                              const std::function<void(std::int64_t, std::int64_t)>& work) {
    struct Progress {
        std::mutex mutex;
        std::condition_variable done;
        std::int64_t under_way = 0;
        std::int64_t failed_at = std::numeric_limits<std::int64_t>::max();
        std::exception_ptr error;
    } progress;

    // Pieces before the failed one still run: theirs would be the first failure by index.
    const auto wanted = [&](std::int64_t begin) {
        const std::lock_guard lock(progress.mutex);
        return begin < progress.failed_at;
    };
    const auto run = [&](std::int64_t begin, std::int64_t end) {
        std::exception_ptr error;
        if (wanted(begin)) {
            try {
                work(begin, end);
            } catch (...) {
                error = std::current_exception();
            }
        }
        const std::lock_guard lock(progress.mutex);
        if (error && begin < progress.failed_at) {
            progress.failed_at = begin;
            progress.error = std::move(error);
        }
        --progress.under_way;
        progress.done.notify_all();
    };

    grain = std::max<std::int64_t>(grain, 1);
    for (std::int64_t begin = 0; begin < count; begin += grain) {
        {
            const std::lock_guard lock(progress.mutex);
            if (progress.error) {
                break;
            }
            ++progress.under_way;
        }
        const std::int64_t end = std::min(begin + grain, count);
        tasks_.push([&run, begin, end] { run(begin, end); });
    }
    std::unique_lock lock(progress.mutex);
    progress.done.wait(lock, [&] { return progress.under_way == 0; });
    if (progress.error) {
        std::rethrow_exception(progress.error);
    }
}

}  // namespace stoker

// Threads take pieces in the order of their indices from one counter. So every piece before a failed one has begun
// and runs to its end, and the failure with the lowest index is always found.
#include "stoker/base/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace stoker {

void parallel_for(int threads, std::int64_t count, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t)>& work) {
    grain = std::max<std::int64_t>(grain, 1);
    std::atomic<std::int64_t> next{0};
    std::mutex mutex;
    std::atomic<std::int64_t> failed_at{std::numeric_limits<std::int64_t>::max()};
    std::exception_ptr failure;  // of the piece at `failed_at`

    const auto run = [&] {
        for (;;) {
            const std::int64_t begin = next.fetch_add(grain);
            if (begin >= count || begin > failed_at) {
                return;
            }
            try {
                work(begin, std::min(begin + grain, count));
            } catch (...) {
                const std::lock_guard lock(mutex);
                if (begin < failed_at) {
                    failed_at = begin;
                    failure = std::current_exception();
                }
            }
        }
    };
    {
        const std::int64_t pieces = count <= 0 ? 0 : (count - 1) / grain + 1;
        std::vector<std::jthread> others;
        try {
            while (std::ssize(others) + 1 < std::min<std::int64_t>(threads, pieces)) {
                others.emplace_back(run);
            }
        } catch (const std::system_error&) {  // the limit on threads is reached: work with those that started
        }
        run();
    }
    if (failure) {
        std::rethrow_exception(failure);
    }
}

}  // namespace stoker

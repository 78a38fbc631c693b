// Threads for one-off parallel work over a range: drawing a data set, verifying files. The first
// failure, by index, is rethrown on the caller, whatever order the threads ran in.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "stoker/base/bounded_queue.h"

namespace stoker {

class ThreadPool {
  public:
    // `threads` of at least 1. Tasks wait in a queue of twice that many places.
    explicit ThreadPool(int threads);
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;
    ~ThreadPool();

    int threads() const { return static_cast<int>(threads_.size()); }

    // Calls work(begin, end) over consecutive pieces of [0, count) of at most `grain` each and
    // waits for all of them. After a failure the later pieces not yet begun are skipped. Not for
    // use inside a piece: a piece that waits for others of its own pool may wait for ever.
    void parallel_for(std::int64_t count, std::int64_t grain,
                      const std::function<void(std::int64_t, std::int64_t)>& work);

  private:
    BoundedQueue<std::function<void()>> tasks_;
    std::vector<std::jthread> threads_;
};

}  // namespace stoker

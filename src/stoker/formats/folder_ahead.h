// Files of a folder that are not in memory, asked for before anyone waits for them. A file's bytes can be asked for
// without waiting, the way to them, name and inode, cannot: so threads of its own wait for that, many at a time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace stoker {

class FolderAhead {
  public:
    // `fetch(index)` brings one file into memory, and does not throw.
    explicit FolderAhead(std::function<void(std::int64_t)> fetch) : fetch_(std::move(fetch)) {}
    FolderAhead(const FolderAhead&) = delete;
    FolderAhead& operator=(const FolderAhead&) = delete;
    ~FolderAhead();

    // A reader had to wait for a file: the next ones are probably not in memory either.
    void waited() { wanted_.store(kWanted, std::memory_order_relaxed); }

    // What is read soon; returns at once. Does nothing as long as nobody had to wait.
    void announce(std::span<const std::int64_t> indices);

  private:
    // After a wait so many files are asked for. Where that is no longer of use, it costs two calls each.
    static constexpr std::int64_t kWanted = 4096;
    static constexpr std::size_t kThreads = 16;
    static constexpr std::size_t kMostWaiting = 1024;  // the oldest are dropped: their reader is there by now

    void work();

    std::function<void(std::int64_t)> fetch_;
    std::atomic<std::int64_t> wanted_{0};
    std::mutex mutex_;
    std::condition_variable filled_;
    std::deque<std::int64_t> waiting_;
    bool stopped_ = false;
    std::vector<std::jthread> threads_;  // none before the first wait
};

}  // namespace stoker

// A blocking queue of fixed capacity between threads: a full queue holds its producers back, a
// closed one lets its consumers drain it. It keeps its own statistics, so stages need not.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace stoker {

struct QueueStats {
    std::int64_t pushed = 0;
    std::int64_t popped = 0;
    std::chrono::nanoseconds producers_blocked{0};  // summed over producers
    std::chrono::nanoseconds consumers_blocked{0};
};

template <typename T>
class BoundedQueue {
  public:
    explicit BoundedQueue(std::size_t capacity) : capacity_(capacity == 0 ? 1 : capacity) {}

    // Waits for room. False, and `item` is dropped, once the queue is closed.
    bool push(T item) {
        std::unique_lock lock(mutex_);
        wait(lock, room_, stats_.producers_blocked, [&] { return closed_ || items_.size() < capacity_; });
        if (closed_) {
            return false;
        }
        items_.push_back(std::move(item));
        ++stats_.pushed;
        lock.unlock();
        filled_.notify_one();
        return true;
    }

    // Waits for an item. Empty once the queue is closed and drained.
    std::optional<T> pop() {
        std::unique_lock lock(mutex_);
        wait(lock, filled_, stats_.consumers_blocked, [&] { return closed_ || !items_.empty(); });
        if (items_.empty()) {
            return std::nullopt;
        }
        std::optional<T> item(std::move(items_.front()));
        items_.pop_front();
        ++stats_.popped;
        lock.unlock();
        room_.notify_one();
        return item;
    }

    // No more pushes; waiting producers and consumers wake up.
    void close() {
        {
            const std::lock_guard lock(mutex_);
            closed_ = true;
        }
        room_.notify_all();
        filled_.notify_all();
    }

    QueueStats stats() const {
        const std::lock_guard lock(mutex_);
        return stats_;
    }

  private:
    template <typename Ready>
    void wait(std::unique_lock<std::mutex>& lock, std::condition_variable& signal, std::chrono::nanoseconds& blocked,
              Ready ready) {
        if (ready()) {
            return;
        }
        const auto begin = std::chrono::steady_clock::now();
        signal.wait(lock, ready);
        blocked += std::chrono::steady_clock::now() - begin;
    }

    const std::size_t capacity_;
    mutable std::mutex mutex_;
    std::condition_variable room_;
    std::condition_variable filled_;
    std::deque<T> items_;
    QueueStats stats_;
    bool closed_ = false;
};

}  // namespace stoker

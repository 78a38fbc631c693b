// Threads that come when they are first of use, and stay.
#include "stoker/formats/folder_ahead.h"

#include <system_error>

namespace stoker {

FolderAhead::~FolderAhead() {
    {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
    }
    filled_.notify_all();
}

void FolderAhead::announce(std::span<const std::int64_t> indices) {
    if (wanted_.load(std::memory_order_relaxed) <= 0) {
        return;
    }
    wanted_.fetch_sub(static_cast<std::int64_t>(indices.size()), std::memory_order_relaxed);
    {
        const std::lock_guard lock(mutex_);
        waiting_.insert(waiting_.end(), indices.begin(), indices.end());
        if (waiting_.size() > kMostWaiting) {
            waiting_.erase(waiting_.begin(), waiting_.end() - kMostWaiting);
        }
        try {
            while (threads_.size() < kThreads) {
                threads_.emplace_back([this] { work(); });
            }
        } catch (const std::system_error&) {  // a hint: those that there are will do, or nobody
        }
    }
    filled_.notify_all();
}

void FolderAhead::work() {
    std::unique_lock lock(mutex_);
    while (true) {
        filled_.wait(lock, [&] { return stopped_ || !waiting_.empty(); });
        if (stopped_) {
            return;
        }
        const std::int64_t index = waiting_.front();
        waiting_.pop_front();
        lock.unlock();
        fetch_(index);
        lock.lock();
    }
}

}  // namespace stoker

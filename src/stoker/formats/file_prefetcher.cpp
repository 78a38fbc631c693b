// The threads start at the first report_wait and run until destruction.
#include "stoker/formats/file_prefetcher.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace stoker {

struct FilePrefetcher::State {
    explicit State(std::function<bool(std::int64_t)> call) : fetch(std::move(call)) {}

    bool active() const { return remaining > 0 && !stopped; }

    void start_threads() {
        try {
            while (!started && threads.size() < kThreads) {
                threads.emplace_back([this] { work(); });
            }
        } catch (const std::system_error&) {  // continue with the threads that started, or without any
        }
        started = true;
    }

    void work() {
        std::unique_lock lock(mutex);
        while (true) {
            filled.wait(lock, [&] { return stopped || (active() && !queue.empty()); });
            if (stopped) {
                return;
            }
            const std::int64_t index = queue.front();
            queue.pop_front();
            lock.unlock();
            const bool in_memory = fetch(index);
            lock.lock();
            remaining = in_memory ? remaining.load() - 1 : kIdleAfter;
        }
    }

    const std::function<bool(std::int64_t)> fetch;
    const pid_t process = ::getpid();
    std::mutex mutex;  // guards everything but reads of `remaining`
    std::condition_variable filled;
    std::deque<std::int64_t> queue;
    std::atomic<std::int64_t> remaining{0};  // files in memory until idle
    bool stopped = false;
    bool started = false;
    std::vector<std::jthread> threads;  // last: they use the members above
};

FilePrefetcher::FilePrefetcher(std::function<bool(std::int64_t)> fetch)
    : state_(std::make_unique<State>(std::move(fetch))) {}

FilePrefetcher::~FilePrefetcher() {
    if (state_->process != ::getpid()) {
        // In a forked child the threads do not exist, and one of them may have held the mutex.
        static_cast<void>(state_.release());
        return;
    }
    {
        const std::lock_guard lock(state_->mutex);
        state_->stopped = true;
    }
    state_->filled.notify_all();
}

void FilePrefetcher::report_wait() {
    if (state_->remaining.load(std::memory_order_relaxed) == kIdleAfter || state_->process != ::getpid()) {
        return;
    }
    {
        const std::lock_guard lock(state_->mutex);
        state_->remaining = kIdleAfter;
        state_->start_threads();
    }
    state_->filled.notify_all();
}

void FilePrefetcher::announce(std::span<const std::int64_t> indices) {
    if (state_->process != ::getpid()) {
        return;
    }
    bool active = false;
    {
        const std::lock_guard lock(state_->mutex);
        active = state_->active();
        auto& queue = state_->queue;
        queue.insert(queue.end(), indices.begin(), indices.end());
        const std::size_t limit = active ? kMaxQueued : std::min(kKeptWhenIdle * indices.size(), kMaxQueued);
        if (queue.size() > limit) {
            queue.erase(queue.begin(), queue.end() - static_cast<std::ptrdiff_t>(limit));
        }
    }
    if (active) {
        state_->filled.notify_all();
    }
}

}  // namespace stoker

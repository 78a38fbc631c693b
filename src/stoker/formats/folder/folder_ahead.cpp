// Threads that come when they are first of use, and stay.
#include "stoker/formats/folder/folder_ahead.h"

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

struct FolderAhead::State {
    explicit State(std::function<bool(std::int64_t)> call) : fetch(std::move(call)) {}

    bool active() const { return tries > 0 && !stopped; }

    void start_threads() {
        try {
            while (!started && threads.size() < kThreads) {
                threads.emplace_back([this] { work(); });
            }
        } catch (const std::system_error&) {  // those that there are will do, or nobody
        }
        started = true;
    }

    void work() {
        std::unique_lock lock(mutex);
        while (true) {
            filled.wait(lock, [&] { return stopped || (active() && !waiting.empty()); });
            if (stopped) {
                return;
            }
            const std::int64_t index = waiting.front();
            waiting.pop_front();
            lock.unlock();
            const bool there = fetch(index);
            lock.lock();
            tries = there ? tries.load() - 1 : kTries;
        }
    }

    const std::function<bool(std::int64_t)> fetch;
    const pid_t process = ::getpid();
    std::mutex mutex;  // guards all but reads of `tries`
    std::condition_variable filled;
    std::deque<std::int64_t> waiting;
    std::atomic<std::int64_t> tries{0};
    bool stopped = false;
    bool started = false;
    std::vector<std::jthread> threads;  // last: they use the others
};

FolderAhead::FolderAhead(std::function<bool(std::int64_t)> fetch) : state_(std::make_unique<State>(std::move(fetch))) {}

FolderAhead::~FolderAhead() {
    if (state_->process != ::getpid()) {
        static_cast<void>(state_.release());  // a fork's copy: its threads are not here, and may have held the mutex
        return;
    }
    {
        const std::lock_guard lock(state_->mutex);
        state_->stopped = true;
    }
    state_->filled.notify_all();
}

void FolderAhead::waited() {
    if (state_->tries.load(std::memory_order_relaxed) == kTries || state_->process != ::getpid()) {
        return;
    }
    {
        const std::lock_guard lock(state_->mutex);
        state_->tries = kTries;
        state_->start_threads();
    }
    state_->filled.notify_all();
}

void FolderAhead::announce(std::span<const std::int64_t> indices) {
    if (state_->process != ::getpid()) {
        return;
    }
    bool active = false;
    {
        const std::lock_guard lock(state_->mutex);
        active = state_->active();
        auto& waiting = state_->waiting;
        waiting.insert(waiting.end(), indices.begin(), indices.end());
        const std::size_t most = active ? kMostWaiting : std::min(kKept * indices.size(), kMostWaiting);
        if (waiting.size() > most) {
            waiting.erase(waiting.begin(), waiting.end() - static_cast<std::ptrdiff_t>(most));
        }
    }
    if (active) {
        state_->filled.notify_all();
    }
}

}  // namespace stoker

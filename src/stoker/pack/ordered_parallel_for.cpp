// A ring of result slots under one mutex. A slot is free, in work or ready.
#include "stoker/pack/ordered_parallel_for.h"

#include <condition_variable>
#include <exception>
#include <fmt/format.h>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "stoker/base/error.h"

namespace stoker {
namespace {

struct Slot {
    bool ready = false;
    std::exception_ptr error;
};

class Ring {
  public:
    Ring(const OrderedRange& range, const std::function<void(std::int64_t, int, int)>& produce)
        : range_(range),
          produce_(produce),
          slots_(static_cast<std::size_t>(range.slots())),
          next_(range.begin),
          consumed_(range.begin) {}

    // The loop of a worker thread.
    void run(int thread) {
        std::unique_lock lock(mutex_);
        while (true) {
            room_.wait(lock, [&] { return stopped_ || next_ == range_.end || next_ < consumed_ + range_.slots(); });
            if (stopped_ || next_ == range_.end) {
                return;
            }
            const std::int64_t item = next_++;
            Slot& slot = at(item);
            lock.unlock();
            try {
                produce_(item, slot_of(item), thread);
            } catch (...) {
                slot.error = std::current_exception();
            }
            lock.lock();
            slot.ready = true;
            ready_.notify_one();
        }
    }

    void wait_for(std::int64_t item) {
        std::unique_lock lock(mutex_);
        ready_.wait(lock, [&] { return at(item).ready; });
        if (at(item).error) {
            std::rethrow_exception(at(item).error);
        }
    }

    void free(std::int64_t item) {
        const std::lock_guard lock(mutex_);
        at(item).ready = false;
        consumed_ = item + 1;
        room_.notify_all();
    }

    void stop() {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
        room_.notify_all();
    }

    int slot_of(std::int64_t item) const { return static_cast<int>(item % range_.slots()); }

  private:
    Slot& at(std::int64_t item) { return slots_[static_cast<std::size_t>(slot_of(item))]; }

    const OrderedRange& range_;
    const std::function<void(std::int64_t, int, int)>& produce_;
    std::mutex mutex_;
    std::condition_variable room_;
    std::condition_variable ready_;
    std::vector<Slot> slots_;
    std::int64_t next_;      // first item that no thread has started
    std::int64_t consumed_;  // items before this one are consumed
    bool stopped_ = false;
};

// Stops the workers on every exit; the jthreads join after that.
struct StopGuard {
    Ring& ring;
    ~StopGuard() { ring.stop(); }
};

}  // namespace

void ordered_parallel_for(const OrderedRange& range, const std::function<void(std::int64_t, int, int)>& produce,
                          const std::function<void(std::int64_t, int)>& consume) {
    if (range.threads < 1) {
        throw InvalidArgument({.where = "ordered_parallel_for",
                               .expected = "at least one thread",
                               .got = fmt::format("{}", range.threads)});
    }
    Ring ring(range, produce);
    std::vector<std::jthread> threads;
    const StopGuard stop{ring};
    try {
        for (int i = 0; i < range.threads && i < range.end - range.begin; ++i) {
            threads.emplace_back([&ring, i] { ring.run(i); });
        }
    } catch (const std::system_error& error) {
        throw IoError({.where = "--workers",
                       .expected = fmt::format("{} threads", range.threads),
                       .got = fmt::format("{}: {}", threads.size(), errno_text(error.code().value())),
                       .hint = "lower <--workers>, or raise the limit on threads (ulimit -u)"});
    }
    for (std::int64_t item = range.begin; item < range.end; ++item) {
        ring.wait_for(item);
        consume(item, ring.slot_of(item));
        ring.free(item);
    }
}

}  // namespace stoker

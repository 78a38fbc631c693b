// One mutex over the state of a ring of places: free (its last item was taken), worked on, ready.
#include "stoker/pack/ordered.h"

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

struct Place {
    bool ready = false;
    std::exception_ptr error;
};

class Ring {
  public:
    Ring(const OrderedWork& range, const std::function<void(std::int64_t, int, int)>& work)
        : range_(range),
          work_(work),
          places_(static_cast<std::size_t>(range.places())),
          next_(range.begin),
          taken_(range.begin) {}

    // A worker's life.
    void serve(int thread) {
        std::unique_lock lock(mutex_);
        while (true) {
            room_.wait(lock, [&] { return stopped_ || next_ == range_.end || next_ < taken_ + range_.places(); });
            if (stopped_ || next_ == range_.end) {
                return;
            }
            const std::int64_t item = next_++;
            Place& place = at(item);
            lock.unlock();
            try {
                work_(item, number(item), thread);
            } catch (...) {
                place.error = std::current_exception();
            }
            lock.lock();
            place.ready = true;
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
        taken_ = item + 1;
        room_.notify_all();
    }

    void stop() {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
        room_.notify_all();
    }

    int number(std::int64_t item) const { return static_cast<int>(item % range_.places()); }

  private:
    Place& at(std::int64_t item) { return places_[static_cast<std::size_t>(number(item))]; }

    const OrderedWork& range_;
    const std::function<void(std::int64_t, int, int)>& work_;
    std::mutex mutex_;
    std::condition_variable room_;
    std::condition_variable ready_;
    std::vector<Place> places_;
    std::int64_t next_;   // to be worked on
    std::int64_t taken_;  // items before this one
    bool stopped_ = false;
};

// Ends the workers on every way out; they are joined after that.
struct Stop {
    Ring& ring;
    ~Stop() { ring.stop(); }
};

}  // namespace

void run_ordered(const OrderedWork& range, const std::function<void(std::int64_t, int, int)>& work,
                 const std::function<void(std::int64_t, int)>& take) {
    if (range.threads < 1) {
        throw InvalidArgument(
            {.where = "run_ordered", .expected = "at least one thread", .got = fmt::format("{}", range.threads)});
    }
    Ring ring(range, work);
    std::vector<std::jthread> threads;
    const Stop stop{ring};
    try {
        for (int i = 0; i < range.threads && i < range.end - range.begin; ++i) {
            threads.emplace_back([&ring, i] { ring.serve(i); });
        }
    } catch (const std::system_error& error) {
        throw IoError({.where = "threads",
                       .expected = fmt::format("{} of them", range.threads),
                       .got = fmt::format("{} ({})", threads.size(), error.what()),
                       .hint = "use fewer workers, or raise the limit on processes"});
    }
    for (std::int64_t item = range.begin; item < range.end; ++item) {
        ring.wait_for(item);
        take(item, ring.number(item));
        ring.free(item);
    }
}

}  // namespace stoker

#include "stoker/dist/heartbeat.h"

#include <algorithm>
#include <condition_variable>
#include <fmt/format.h>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace stoker {
namespace {

// Five signs in a time-out, but at least one in five seconds.
std::chrono::milliseconds period_of(std::chrono::milliseconds timeout) {
    return std::min<std::chrono::milliseconds>(timeout / 5, std::chrono::seconds(5));
}

std::string key_of(int rank) {
    return fmt::format("alive/{}", rank);
}

}  // namespace

struct Heartbeat::Signs {
    std::mutex mutex;
    std::condition_variable stopped;
    bool stops = false;
    bool ended = false;
    std::int64_t rounds = 0;              // of looks at the store
    std::vector<std::int64_t> counts;     // of each rank that is looked at, at the last round
    std::vector<std::int64_t> unchanged;  // rounds since a count changed
    std::int64_t rounds_seen = 0;         // at the last call of silent()
    std::chrono::steady_clock::duration store_waited{};
    std::chrono::steady_clock::time_point last_call = std::chrono::steady_clock::now();
    std::chrono::milliseconds timeout{};
    int rank = 0;
    int first = 0;  // the rank of counts[0]

    // One sign of this rank, and a look at those of others. Another connection may wait on the store meanwhile.
    void round(c10d::Store& store) {
        store.add(key_of(rank), 1);
        std::vector<std::int64_t> found;
        for (std::size_t i = 0; i < counts.size(); ++i) {
            found.push_back(store.add(key_of(first + static_cast<int>(i)), 0));
        }
        const std::lock_guard lock(mutex);
        for (std::size_t i = 0; i < counts.size(); ++i) {
            unchanged[i] = found[i] == counts[i] ? unchanged[i] + 1 : 0;
            counts[i] = found[i];
        }
        ++rounds;
    }
};

Heartbeat::Heartbeat(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout)
    : signs_(std::make_shared<Signs>()) {
    signs_->rank = rank;
    signs_->timeout = timeout;
    signs_->first = rank == 0 ? 1 : 0;
    signs_->counts.resize(rank == 0 ? static_cast<std::size_t>(size - 1) : 1);
    signs_->unchanged.resize(signs_->counts.size());
    std::thread([signs = signs_, store = std::move(store), period = period_of(timeout)] {
        try {
            for (bool stops = false; !stops;) {
                signs->round(*store);
                std::unique_lock lock(signs->mutex);
                stops = signs->stopped.wait_for(lock, period, [&] { return signs->stops; });
            }
        } catch (const std::exception&) {  // rank 0 has ended, and the store with it: no more rounds
        }
        const std::lock_guard lock(signs->mutex);
        signs->ended = true;
        signs->stopped.notify_all();
    }).detach();
}

Heartbeat::~Heartbeat() {
    constexpr auto kMost = std::chrono::milliseconds(200);  // a store answers in less, or never
    std::unique_lock lock(signs_->mutex);
    signs_->stops = true;
    signs_->stopped.notify_all();
    signs_->stopped.wait_for(lock, kMost, [&] { return signs_->ended; });
}

std::string Heartbeat::silent() {
    constexpr auto kMostBetween = std::chrono::seconds(2);  // more is a process that was stopped
    const std::lock_guard lock(signs_->mutex);
    const auto now = std::chrono::steady_clock::now();
    const auto since = std::min<std::chrono::steady_clock::duration>(now - signs_->last_call, kMostBetween);
    signs_->last_call = now;
    signs_->store_waited = signs_->rounds == signs_->rounds_seen ? signs_->store_waited + since
                                                                 : std::chrono::steady_clock::duration::zero();
    signs_->rounds_seen = signs_->rounds;
    for (std::size_t i = 0; i < signs_->counts.size(); ++i) {
        if (signs_->unchanged[i] * period_of(signs_->timeout) > signs_->timeout) {
            return fmt::format("rank {}", signs_->first + static_cast<int>(i));
        }
    }
    return signs_->store_waited > signs_->timeout + period_of(signs_->timeout) ? "rank 0's store" : "";
}

}  // namespace stoker

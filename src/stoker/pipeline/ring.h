// The ring of batch slots between workers and the training thread. Workers take pieces of the
// batches under way, in order; the consumer takes finished batches, in order; a slot goes back when
// its last holder lets go. Full slots hold the workers back. Depth and workers may change at any time.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "stoker/pipeline/batch.h"

namespace stoker {

// Samples [begin, end) of a batch that is being filled.
struct RingTask {
    Batch* batch = nullptr;
    std::int64_t sequence = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

struct RingStats {
    std::int64_t batches = 0;    // handed to the consumer
    std::int64_t ready_sum = 0;  // finished batches found at each of those moments
    std::chrono::nanoseconds consumer_wait{0};
};

class BatchRing : public std::enable_shared_from_this<BatchRing> {
  public:
    // `make` allocates a slot; `open` prepares one for the batch number `sequence` (its size) and
    // runs under the lock. What they throw becomes the error of that batch. Batches first, first + 1,
    // ... up to `end` (exclusive) will be made.
    BatchRing(std::function<std::unique_ptr<Batch>()> make, std::function<void(Batch&, std::int64_t)> open,
              std::int64_t first, std::int64_t end);

    // Batches under way or waiting at most (at least 1); samples per task.
    void set_depth(std::int64_t depth);
    void set_grain(std::int64_t grain);
    // Workers of this number and above get no more tasks.
    void set_workers(int workers);

    // The next piece of work for `worker`; waits while there is none. Empty when it shall end.
    std::optional<RingTask> take(int worker);
    // The same for the consumer's own thread (no workers): never waits.
    std::optional<RingTask> try_take();
    // Reports a task as done; `error` of sample `error_at` (-1: none) is kept for the consumer.
    void complete(const RingTask& task, std::exception_ptr error = nullptr, std::int64_t error_at = -1);

    // The next batch in order, null after the last. Waits for it; rethrows the error of its
    // lowest sample, after which the batch counts as taken.
    std::shared_ptr<Batch> pop();
    // True where pop would not wait.
    bool ready() const;

    // Wakes everybody; take and pop give nothing from then on.
    void stop();
    // Worth asking inside a long task: nobody waits for it any more.
    bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

    RingStats stats() const;

  private:
    struct Open {
        std::unique_ptr<Batch> batch;  // null where no slot could be made
        std::int64_t next = 0;         // first sample not yet given out
        std::int64_t done = 0;
        std::exception_ptr error = nullptr;
        std::int64_t error_at = -1;
        bool finished() const { return !batch || done == batch->size(); }
    };

    // Both under the lock.
    std::optional<RingTask> claim();
    Open open_slot(std::int64_t sequence);
    bool front_ready() const { return !open_.empty() && open_.front().finished(); }
    void give_back(std::unique_ptr<Batch> batch);

    const std::function<std::unique_ptr<Batch>()> make_;
    const std::function<void(Batch&, std::int64_t)> open_batch_;
    const std::int64_t end_;

    mutable std::mutex mutex_;
    std::condition_variable work_;   // for workers
    std::condition_variable ready_;  // for the consumer
    std::deque<Open> open_;          // in order; the front is batch number first_open_
    std::int64_t first_open_;
    std::vector<std::unique_ptr<Batch>> free_;
    std::int64_t depth_ = 1;
    std::int64_t grain_ = 1;
    int workers_ = 0;
    std::atomic<bool> stopped_ = false;  // set under the lock
    RingStats stats_;
};

}  // namespace stoker

// The ring of batches between the workers and the consumer (the training thread). Workers take tasks in batch order;
// the consumer takes finished batches in order; a batch is reused when its last holder releases it. Workers wait while
// the ring is full. Depth and number of workers may change at any time.
#pragma once

#include <algorithm>
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

#include "stoker/base/memory_limit.h"
#include "stoker/pipeline/batch.h"

namespace stoker {

// How many samples a worker takes at a time: few enough that all workers share a batch, and more if a task would be
// over after some microseconds, since then workers wait for the ring's lock more than they work.
class TaskGrain {
  public:
    static constexpr std::chrono::microseconds kShort{20};
    static constexpr std::chrono::microseconds kLong{200};

    explicit TaskGrain(std::int64_t least = 1) : least_(std::max<std::int64_t>(least, 1)), samples_(least_) {}

    // For `workers` that share batches of `batch` samples.
    static std::int64_t least_for(std::int64_t batch, int workers) {
        return std::clamp<std::int64_t>(batch / (4 * std::int64_t{std::max(workers, 1)}), 1, 32);
    }

    std::int64_t samples() const { return samples_; }

    // After a task of `samples` that took `time`, of a batch of `batch`: doubled where it was short, halved where long.
    void adapt(std::int64_t samples, std::int64_t batch, std::chrono::nanoseconds time) {
        if (samples == samples_ && time < kShort) {  // and not the rest of a batch
            samples_ = std::max(samples_, std::min(2 * samples_, batch));
        } else if (samples <= samples_ && time > kLong) {  // and not a task from before the grain became smaller
            samples_ = std::max(samples_ / 2, least_);
        }
    }

  private:
    std::int64_t least_;
    std::int64_t samples_;
};

// Items [begin, end) of a batch that is being filled.
struct RingTask {
    Batch* batch = nullptr;
    std::int64_t sequence = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    bool urgent = false;  // the batch is in the front half of the ring: the consumer needs it soon
};

// Makes a loader's batches. Their memory is claimed at once and allocated when it is needed, so that too many batches
// are refused at the start, and a cache does not take the memory of a loader that begins later.
class BatchMemory {
  public:
    // Claims memory for `batches` of `capacity` samples; with `twice`, only if as much again stays free. Throws
    // MemoryError if there is less.
    BatchMemory(const std::vector<FieldSpec>& fields, std::int64_t capacity, std::int64_t batches, bool twice,
                Allocator& allocator);

    // Allocates a batch, which the claim no longer covers.
    std::unique_ptr<Batch> make();
    // No more batches of the claim are needed.
    void release() { claim_->shrink_to(0); }

  private:
    const std::vector<FieldSpec> fields_;
    const std::int64_t capacity_;
    Allocator& allocator_;
    double bytes_ = 0;  // of a batch; as an integer they might overflow
    std::optional<MemoryClaim> claim_;
};

class BatchRing : public std::enable_shared_from_this<BatchRing> {
  public:
    // `make` allocates a batch; `open` prepares it as batch number `sequence` (sets its size) and runs under the lock.
    // An exception of either becomes the error of that batch. The ring produces batches [first, end).
    BatchRing(std::function<std::unique_ptr<Batch>()> make, std::function<void(Batch&, std::int64_t)> open,
              std::int64_t first, std::int64_t end);

    // Depth: the most batches in the ring, being filled or finished (at least 1). Grain: items per task, at least;
    // short tasks get more.
    void set_depth(std::int64_t depth);
    void set_grain(std::int64_t grain);
    // Allocates this many batches, and keeps them from then on. Call it before the first take. Rethrows what `make`
    // throws.
    void reserve(std::int64_t batches);
    // Workers with an id of `workers` or above get no more tasks.
    void set_workers(int workers);

    // Waits for the next task of `worker`. Empty: the worker must end.
    std::optional<RingTask> take(int worker);
    // The same for the consumer's thread (no workers), without waiting.
    std::optional<RingTask> try_take();
    // Marks a task as done. `error`, of item `error_at` (-1: none), is kept for the consumer. `time`: of the task,
    // if it was measured.
    void complete(const RingTask& task, std::exception_ptr error = nullptr, std::int64_t error_at = -1,
                  std::optional<std::chrono::nanoseconds> time = std::nullopt);

    // Waits for the next batch in order; null after the last. Rethrows the error of its lowest item; the batch then
    // counts as taken.
    std::shared_ptr<Batch> pop();
    // Finished batches, in order from the next one, when `pop` was called last.
    std::int64_t ready_at_pop() const { return ready_at_pop_; }
    // True if pop would not wait.
    bool ready() const;
    // Waits for that at most `time`; the result is ready().
    bool wait_for(std::chrono::milliseconds time);
    // Finished batches that the consumer can take without waiting.
    std::int64_t finished() const;
    // True if as many batches as fit, or all that are left, are finished: there is nothing to do until one is taken.
    bool full() const;

    // Wakes all threads; take and pop return nothing from then on.
    void stop();
    // Long tasks check this and end early.
    bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

  private:
    struct OpenBatch {
        std::unique_ptr<Batch> batch;  // null if `make` or `open` threw
        std::int64_t next = 0;         // first item not yet part of a task
        std::int64_t done = 0;
        std::exception_ptr error = nullptr;
        std::int64_t error_at = -1;
        bool finished() const { return !batch || done == batch->size(); }
    };

    // Called under the lock.
    std::optional<RingTask> claim();
    RingTask claim_of(OpenBatch& open, std::int64_t sequence) const;
    OpenBatch open_slot(std::int64_t sequence);
    bool pop_ready() const { return stopped_ || first_open_ >= end_ || front_ready(); }
    bool front_ready() const { return !open_.empty() && open_.front().finished(); }
    void give_back(std::unique_ptr<Batch> batch);
    std::int64_t workers_for(const OpenBatch& taken) const;

    const std::function<std::unique_ptr<Batch>()> make_;
    const std::function<void(Batch&, std::int64_t)> open_batch_;
    const std::int64_t end_;

    mutable std::mutex mutex_;
    std::condition_variable work_;   // for workers
    std::condition_variable ready_;  // for the consumer
    std::deque<OpenBatch> open_;     // in order; the front has sequence first_open_
    std::int64_t first_open_;
    std::vector<std::unique_ptr<Batch>> free_;
    std::int64_t depth_ = 1;
    std::int64_t reserved_ = 0;
    TaskGrain grain_;
    int workers_ = 0;
    std::atomic<bool> stopped_ = false;  // set under the lock
    std::int64_t ready_at_pop_ = 0;      // used by the consumer's thread only
};

}  // namespace stoker

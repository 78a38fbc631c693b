// One mutex guards everything: a task takes tens of microseconds or more, claiming one far less than a microsecond.
// Batches are allocated when first needed and reused, so the steady state allocates nothing.
#include "stoker/pipeline/ring.h"

#include <algorithm>
#include <fmt/format.h>

#include "stoker/base/pluralize.h"

namespace stoker {

BatchMemory::BatchMemory(const std::vector<FieldSpec>& fields, std::int64_t capacity, std::int64_t batches, bool twice,
                         Allocator& allocator)
    : fields_(fields), capacity_(capacity), allocator_(allocator) {
    for (const FieldSpec& field : fields) {
        bytes_ += field.ragged ? 0 : static_cast<double>(field.batch_bytes(capacity));
    }
    const std::uint64_t times = twice ? 2 : 1;
    const double all = static_cast<double>(times) * static_cast<double>(batches) * bytes_;
    claim_.emplace(static_cast<std::uint64_t>(std::min(all, 0x1p62)), "data.batch_size",
                   fmt::format("these are {} batches of {}: lower data.batch_size or data.prefetch", batches,
                               pluralize(capacity, "image")));
    claim_->shrink_to(claim_->bytes() / times);
}

std::unique_ptr<Batch> BatchMemory::make() {
    claim_->shrink_to(claim_->bytes() - std::min(claim_->bytes(), static_cast<std::uint64_t>(bytes_)));
    return std::make_unique<Batch>(fields_, capacity_, allocator_);
}

BatchRing::BatchRing(std::function<std::unique_ptr<Batch>()> make, std::function<void(Batch&, std::int64_t)> open,
                     std::int64_t first, std::int64_t end)
    : make_(std::move(make)), open_batch_(std::move(open)), end_(end), first_open_(first) {}

void BatchRing::set_depth(std::int64_t depth) {
    {
        const std::lock_guard lock(mutex_);
        depth_ = std::max<std::int64_t>(depth, 1);
    }
    work_.notify_all();
}

void BatchRing::set_grain(std::int64_t grain) {
    const std::lock_guard lock(mutex_);
    grain_ = TaskGrain(grain);
}

void BatchRing::reserve(std::int64_t batches) {
    std::vector<std::unique_ptr<Batch>> made;
    while (std::ssize(made) < batches) {
        made.push_back(make_());
    }
    const std::lock_guard lock(mutex_);
    reserved_ = batches;
    free_ = std::move(made);
}

void BatchRing::set_workers(int workers) {
    {
        const std::lock_guard lock(mutex_);
        workers_ = workers;
    }
    work_.notify_all();
}

BatchRing::OpenBatch BatchRing::open_slot(std::int64_t sequence) {
    OpenBatch open;
    try {
        if (free_.empty()) {
            open.batch = make_();
        } else {
            open.batch = std::move(free_.back());
            free_.pop_back();
        }
        open_batch_(*open.batch, sequence);
    } catch (...) {
        open.batch = nullptr;
        open.error = std::current_exception();
    }
    return open;
}

RingTask BatchRing::claim_of(OpenBatch& open, std::int64_t sequence) const {
    const std::int64_t begin = open.next;
    open.next = std::min(begin + grain_.samples(), open.batch->size());
    return {.batch = open.batch.get(),
            .sequence = sequence,
            .begin = begin,
            .end = open.next,
            .urgent = 2 * (sequence - first_open_) < depth_};
}

std::optional<RingTask> BatchRing::claim() {
    std::int64_t sequence = first_open_;
    for (auto& open : open_) {
        if (open.batch && open.next < open.batch->size()) {
            return claim_of(open, sequence);
        }
        ++sequence;
    }
    for (; static_cast<std::int64_t>(open_.size()) < depth_ && sequence < end_; ++sequence) {
        OpenBatch& open = open_.emplace_back(open_slot(sequence));
        if (!open.finished()) {
            return claim_of(open, sequence);
        }
        // An empty or failed batch is without tasks, so it is finished already.
        ready_.notify_all();
    }
    return std::nullopt;
}

std::optional<RingTask> BatchRing::take(int worker) {
    std::unique_lock lock(mutex_);
    while (!stopped_ && worker < workers_) {
        if (auto task = claim()) {
            return task;
        }
        work_.wait(lock);
    }
    return std::nullopt;
}

std::optional<RingTask> BatchRing::try_take() {
    const std::lock_guard lock(mutex_);
    return stopped_ ? std::nullopt : claim();
}

void BatchRing::complete(const RingTask& task, std::exception_ptr error, std::int64_t error_at,
                         std::optional<std::chrono::nanoseconds> time) {
    const bool measured = time && !error && !stopped();  // else the task may have ended early
    bool wake = false;
    {
        const std::lock_guard lock(mutex_);
        OpenBatch& open = open_[static_cast<std::size_t>(task.sequence - first_open_)];
        if (error && (open.error_at < 0 || error_at < open.error_at)) {
            open.error = std::move(error);
            open.error_at = error_at;
        }
        open.done += task.end - task.begin;
        if (measured) {
            grain_.adapt(task.end - task.begin, task.batch->size(), *time);
        }
        wake = front_ready();
    }
    if (wake) {
        ready_.notify_all();
    }
}

// As many as the batch that takes this one's place has tasks: to wake a thread takes the consumer microseconds.
std::int64_t BatchRing::workers_for(const OpenBatch& taken) const {
    const std::int64_t tasks = taken.batch ? (taken.batch->capacity() - 1) / grain_.samples() + 1 : workers_;
    return std::min<std::int64_t>(tasks, workers_);
}

std::shared_ptr<Batch> BatchRing::pop() {
    std::unique_lock lock(mutex_);
    if (stopped_ || first_open_ >= end_) {
        return nullptr;
    }
    ready_at_pop_ = std::ranges::find_if_not(open_, &OpenBatch::finished) - open_.begin();
    ready_.wait(lock, [&] { return stopped_ || front_ready(); });
    if (stopped_) {
        return nullptr;
    }
    OpenBatch taken = std::move(open_.front());
    open_.pop_front();
    ++first_open_;
    const std::int64_t wake = workers_for(taken);
    if (taken.error && taken.batch) {
        free_.push_back(std::move(taken.batch));
    }
    lock.unlock();
    for (std::int64_t i = 0; i < wake; ++i) {
        work_.notify_one();
    }
    if (taken.error) {
        std::rethrow_exception(taken.error);
    }
    // The deleter may run on any thread, and after the loader is destroyed.
    return {taken.batch.release(),
            [ring = shared_from_this()](Batch* batch) { ring->give_back(std::unique_ptr<Batch>(batch)); }};
}

bool BatchRing::ready() const {
    const std::lock_guard lock(mutex_);
    return pop_ready();
}

bool BatchRing::wait_for(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return ready_.wait_for(lock, time, [&] { return pop_ready(); });
}

std::int64_t BatchRing::finished() const {
    const std::lock_guard lock(mutex_);
    return std::ranges::find_if_not(open_, &OpenBatch::finished) - open_.begin();
}

bool BatchRing::full() const {
    const std::lock_guard lock(mutex_);
    const auto batches = static_cast<std::int64_t>(open_.size());
    return (batches >= depth_ || first_open_ + batches >= end_) && std::ranges::all_of(open_, &OpenBatch::finished);
}

void BatchRing::give_back(std::unique_ptr<Batch> batch) {
    const std::lock_guard lock(mutex_);
    if (static_cast<std::int64_t>(free_.size()) < std::max(depth_ + 1, reserved_)) {
        free_.push_back(std::move(batch));
    }
}

void BatchRing::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
    }
    work_.notify_all();
    ready_.notify_all();
}

}  // namespace stoker

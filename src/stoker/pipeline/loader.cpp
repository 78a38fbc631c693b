// Worker threads, batch order, prefetching and state of the loader. loader_sample.cpp prepares one sample;
// ring.cpp schedules the work.
#include "stoker/pipeline/loader.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fmt/format.h>
#include <limits>
#include <set>
#include <system_error>

#include "stoker/base/error.h"
#include "stoker/base/map_damage.h"
#include "stoker/base/memory_limit.h"
#include "stoker/base/pluralize.h"
#include "stoker/base/shell_quote.h"
#include "stoker/pipeline/transforms/gather_ops.h"
#include "stoker/records/accounting.h"

namespace stoker {
namespace {

// The generator's counter has 32 bits for the epoch.
constexpr std::int64_t kMaxEpochs = std::int64_t{1} << 32;

std::shared_ptr<const Sampler> make_loader_sampler(const Dataset& dataset, const LoaderOptions& options) {
    return options.sampler != nullptr
               ? options.sampler
               : make_sampler({.size = dataset.size(), .seed = options.seed, .shuffle = options.shuffle});
}

BatchSamplerOptions batch_sampler_options(const Sampler& sampler, const LoaderOptions& options) {
    return {.size = sampler.size(),
            .batch_size = options.batch_size,
            .drop_last = options.drop_last,
            .rank = options.rank,
            .world_size = options.world_size};
}

// A larger batch does not stay in the processor's caches until the training thread reads it, so it is written past
// them.
constexpr std::size_t kStreamBytes = std::size_t{8} << 20;

std::chrono::nanoseconds thread_cpu_time() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

void require_gather(const Dataset& dataset, const Transform& transform, const ImageTable& images) {
    const auto wrong = find_not_gathered(transform.slice(OpRange::remaining));
    if (wrong || images.size() != dataset.size() || !dataset.fields().empty()) {
        throw InvalidArgument({.where = "loader",
                               .expected = fmt::format("images of {} samples without further fields, and ops that a "
                                                       "gather can do",
                                                       dataset.size()),
                               .got = wrong
                                          ? fmt::format("op {}, which {}", wrong->op + 1, wrong->why)
                                          : fmt::format("{}, and {} fields", images.size(), dataset.fields().size())});
    }
}

// Of the fixed fields of a batch; no more than 2^62.
std::uint64_t batch_bytes(const std::vector<FieldSpec>& fields, std::int64_t capacity) {
    constexpr double kMost = 0x1p62;
    double bytes = 0;
    for (const FieldSpec& field : fields) {
        bytes += field.ragged ? 0 : static_cast<double>(capacity) * static_cast<double>(field.sample_bytes());
    }
    return static_cast<std::uint64_t>(std::min(bytes, kMost));
}

// Lists the first samples of `found`, each once.
[[noreturn]] void throw_too_many_bad(const Dataset& dataset, std::int64_t budget, std::span<const BadSample> found) {
    constexpr std::size_t kListed = 5;
    std::set<std::int64_t> listed;
    std::string list;
    for (const BadSample& bad : found) {
        if (listed.size() < kListed && listed.insert(bad.index).second) {
            list += fmt::format("{}{}: {}", list.empty() ? "" : "; ", bad.key, bad.reason);
        }
    }
    const bool more = std::ranges::any_of(found, [&](const BadSample& bad) { return !listed.contains(bad.index); });
    const std::string& hint = found.front().hint;
    const bool one = dataset.format() != "concat";  // else its path is a list of paths
    throw TooManyBadSamples(
        {.path = dataset.path()},
        {.where = "data.bad_samples",
         .expected = fmt::format("at most {} in an epoch", pluralize(budget, "bad sample")),
         .got = fmt::format("more: {}{}", list, more ? "; ..." : ""),
         .hint = fmt::format("{}{}`stoker inspect{} --verify` lists what is damaged; repair the data or raise "
                             "<data.bad_samples>",
                             hint, hint.empty() ? "" : "; ", one ? " " + quoted_for_shell(dataset.path()) : "")},
        {found.begin(), found.end()});
}

}  // namespace

Loader::Loader(std::shared_ptr<const Dataset> dataset, Transform transform, const LoaderOptions& options)
    : dataset_(std::move(dataset)),
      transform_(std::move(transform)),
      options_(options),
      sampler_(make_loader_sampler(*dataset_, options)),
      batch_sampler_(batch_sampler_options(*sampler_, options)),
      has_image_(dataset_->has_image()) {
    if (options_.allocator == nullptr) {
        options_.allocator = &host_allocator();
    }
    options_.workers = std::max(options_.workers, 0);
    options_.prefetch = std::max(options_.prefetch, 1);
    if (options_.epochs < 0 || options_.epochs > kMaxEpochs) {
        throw InvalidArgument({.where = "train.epochs",
                               .expected = fmt::format("0 (unlimited) to {}", kMaxEpochs),
                               .got = fmt::to_string(options_.epochs)});
    }
    if (sampler_->samples() != dataset_->size() || sampler_->seed() != options_.seed) {
        throw InvalidArgument(
            {.where = "loader",
             .expected = fmt::format("a sampler of {} samples and seed {}", dataset_->size(), options_.seed),
             .got = fmt::format("one of {} and seed {}", sampler_->samples(), sampler_->seed())});
    }
    if (!is_pixel_dtype(options_.dtype)) {
        throw InvalidArgument({.where = "loader",
                               .expected = "a dtype of uint8, float16, bfloat16 or float32",
                               .got = std::string(dtype_name(options_.dtype))});
    }
    if (options_.images != nullptr) {
        require_gather(*dataset_, transform_, *options_.images);
        options_.cache = {};
        options_.cut_bytes = 0;
    }
    if (options_.cut_bytes > 0) {
        options_.normalize_late = true;
        options_.cache.encoded = true;
    }
    plan_fields();
    make_fields();  // also checks the names, before a sample is read
    find_shapes();
    make_fields();
    const auto capacity = static_cast<std::size_t>(batch_sampler_.max_slice());
    place_.pixels.streamed = has_image_ && fields_.front().dtype == DType::float32 &&
                             fields_.front().sample_bytes() >= kStreamBytes / capacity;
    try {
        claim_and_start();
    } catch (const Error&) {
        if (!options_.share_decoding || options_.cut_bytes == 0) {
            throw;
        }
        options_.cut_bytes = 0;  // there may be memory for slots without cuts
        make_fields();
        claim_and_start();
    }
}

void Loader::claim_and_start() {
    ring_claim_ = claim_ring();
    cache_ = make_sample_cache(dataset_->size(), options_.cache);
    try {
        start(0);
    } catch (...) {
        stop();
        throw;
    }
}

// The most batches at a time, if the caller holds no more than it said.
std::int64_t Loader::ring_batches() const {
    return (options_.workers == 0 ? 1 : options_.prefetch) + 1 + options_.held;
}

// Batches are allocated when they are needed. Their memory is claimed before, so that too many of them are refused at
// once, and a cache does not take the memory of a loader that begins later.
std::shared_ptr<MemoryClaim> Loader::claim_ring() const {
    const std::int64_t batches = ring_batches();
    const std::uint64_t bytes = batch_bytes(fields_, batch_sampler_.max_slice());
    constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
    const auto count = static_cast<std::uint64_t>(batches);
    // With slots that have room for pixels and cuts, as much again stays free for a loader that begins later.
    const std::uint64_t room = options_.share_decoding && options_.cut_bytes > 0 ? 2 : 1;
    auto claim = std::make_shared<MemoryClaim>(
        bytes > kMost / count / room ? kMost : room * count * bytes, "data.batch_size",
        fmt::format("these are {} batches of {}: lower <data.batch_size> or <data.prefetch>", batches,
                    pluralize(batch_sampler_.max_slice(), "image")));
    claim->shrink_to(claim->bytes() / room);
    return claim;
}

std::int64_t Loader::end_sequence() const {
    const std::int64_t batches = batches_per_epoch();
    constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
    return options_.epochs == 0 || options_.epochs > kNever / batches ? kNever : options_.epochs * batches;
}

Loader::~Loader() {
    stop();
    ring_claim_->shrink_to(0);  // batches that are still held keep the ring and its claim
}

void Loader::start(std::int64_t sequence) {
    sequence_ = sequence;
    prefetched_ = sequence;
    prefetch_until(sequence + 1);
    at_epoch_end_ = false;
    ring_ = std::make_shared<BatchRing>(
        [fields = fields_, capacity = batch_sampler_.max_slice(), allocator = options_.allocator, claim = ring_claim_] {
            const std::uint64_t bytes = batch_bytes(fields, capacity);
            claim->shrink_to(claim->bytes() - std::min(claim->bytes(), bytes));
            return std::make_unique<Batch>(fields, capacity, *allocator);
        },
        [this](Batch& batch, std::int64_t number) { open_batch(batch, number); }, sequence, end_sequence());
    if (options_.held > 0) {
        ring_->reserve(std::min(ring_batches(), end_sequence() - sequence));
    }
    set_workers(options_.workers);
}

void Loader::open_batch(Batch& batch, std::int64_t sequence) const {
    const std::int64_t epoch = sequence / batches_per_epoch();
    const std::int64_t number = sequence % batches_per_epoch();
    const BatchSlice slice = batch_sampler_.slice(number);
    batch.reset(epoch, number, slice.count);
    sampler_->draw(epoch, slice.first, batch.sampled());
    const auto indices = batch.field(kIndexField).as<std::int64_t>();
    std::ranges::transform(batch.sampled(), indices.begin(), &SampledIndex::index);
}

// Passes all batches before `end` to Dataset::prefetch, in order.
void Loader::prefetch_until(std::int64_t end) {
    const std::lock_guard lock(prefetch_mutex_);
    for (; prefetched_ < std::min(end, end_sequence()); ++prefetched_) {
        prefetch_batch(prefetched_);
    }
}

void Loader::stop() {
    if (ring_ == nullptr) {
        return;  // the start failed before
    }
    ring_->stop();
    resize_workers(0);
}

void Loader::set_workers(int workers) {
    options_.workers = std::max(workers, 0);
    ring_->set_grain(TaskGrain::least_for(batch_sampler_.max_slice(), options_.workers));
    ring_->set_depth(options_.workers == 0 ? 1 : options_.prefetch);
    resize_workers(options_.workers);
}

void Loader::resize_workers(int workers) {
    ring_->set_workers(workers);
    while (static_cast<int>(workers_.size()) > workers) {
        workers_.back()->thread.join();
        finished_times_ += workers_.back()->times;
        workers_.pop_back();
    }
    while (static_cast<int>(workers_.size()) < workers) {
        const int id = static_cast<int>(workers_.size());
        workers_.push_back(std::make_unique<Worker>());
        Worker& worker = *workers_.back();
        try {
            worker.thread = std::thread([this, id, &worker] { work(id, worker); });
        } catch (const std::system_error& error) {
            workers_.pop_back();
            throw IoError({.where = "data.workers",
                           .expected = fmt::format("{} threads", workers),
                           .got = fmt::format("{}: {}", id, errno_text(error.code().value())),
                           .hint = "lower <data.workers>, or raise the limit on threads (ulimit -u)"});
        }
    }
}

void Loader::set_prefetch(int prefetch) {
    options_.prefetch = std::max(prefetch, 1);
    ring_->set_depth(options_.workers == 0 ? 1 : options_.prefetch);
}

namespace {

// Reads the thread's CPU clock at most every 5 ms: it is a system call, which short tasks would feel.
class CpuClock {
  public:
    void add_to(StageTimes& times, StageTime now, bool last) {
        if (now == StageTime{} || (!last && now - read_ < std::chrono::milliseconds(5))) {
            return;
        }
        const std::chrono::nanoseconds used = thread_cpu_time();
        times.cpu += used - used_;
        used_ = used;
        read_ = now;
    }

  private:
    std::chrono::nanoseconds used_ = thread_cpu_time();
    StageTime read_ = std::chrono::steady_clock::now();
};

}  // namespace

void Loader::work(int id, Worker& worker) {
    CpuClock cpu;
    // The clock is read twice a task: a task of small samples takes microseconds.
    StageTime since = stage_now();
    for (;;) {
        StageTimes times;
        const auto task = ring_->take(id);
        StageTime now = stage_now();
        times[Stage::blocked] += stage_time(since, now);
        if (task) {
            now = run_task(id, *task, worker.scratch, now, times);
        }
        cpu.add_to(times, now, !task);
        since = now;
        const std::lock_guard lock(worker.mutex);
        worker.times += times;
        if (!task) {
            return;
        }
    }
}

void Loader::set_log(std::shared_ptr<WorkLog> log) {
    const std::lock_guard lock(log_mutex_);
    log_ = std::move(log);
    logs_ = log_ != nullptr;
}

std::shared_ptr<WorkLog> Loader::log() {
    if (!logs_.load(std::memory_order_relaxed)) {
        return nullptr;
    }
    const std::lock_guard lock(log_mutex_);
    return log_;
}

StageTime Loader::run_task(int worker, const RingTask& task, WorkerScratch& scratch, StageTime begin,
                           StageTimes& times) {
    const std::shared_ptr<WorkLog> to = log();
    if (to == nullptr) {
        return fill_task(task, scratch, begin, times);
    }
    const auto began = std::chrono::steady_clock::now();
    StageTimes own;
    const StageTime end = fill_task(task, scratch, begin, own);
    to->add({.worker = worker,
             .batch = task.sequence,
             .begin = task.begin,
             .end = task.end,
             .began = began,
             .ended = std::chrono::steady_clock::now(),
             .times = own,
             .ready = ring_->finished()});
    times += own;
    return end;
}

StageTime Loader::fill_task(const RingTask& task, WorkerScratch& scratch, StageTime begin, StageTimes& times) {
    const auto began = std::chrono::steady_clock::now();  // `begin` is empty while the account is off
    std::int64_t item = task.begin;
    std::exception_ptr error;
    scratch.stages.begin_task(begin);
    try {
        with_checked_maps([&] {
            if (task.begin == 0) {
                prefetch_until(task.sequence + 2);  // also the next batch
            }
            const auto& draws = task.batch->sampled();
            for (; item < task.end && !ring_->stopped(); ++item) {
                constexpr std::int64_t kAhead = 2;
                if (cache_ != nullptr && item + kAhead < task.end) {
                    cache_->prefetch(draws[static_cast<std::size_t>(item + kAhead)].index);
                }
                const std::uint64_t huge = huge_allocations();
                scratch.stages.next_sample();
                fill_batch_item({*task.batch, item, task.urgent}, scratch);
                if (huge_allocations() != huge) {  // or each worker would keep the memory of the largest image
                    const StageSampler stages = scratch.stages;
                    scratch = WorkerScratch();
                    scratch.stages = stages;
                }
            }
        });
    } catch (...) {
        error = std::current_exception();
    }
    const StageTime end = stage_now();
    scratch.stages.end_task(times, end);
    // After the catch block: this thread releases the exception before the consumer rethrows it.
    ring_->complete(task, std::move(error), item, std::chrono::steady_clock::now() - began);
    return end;
}

std::shared_ptr<Batch> Loader::next() {
    if (at_epoch_end_) {
        at_epoch_end_ = false;
        return nullptr;
    }
    while (workers_.empty() && !ring_->ready()) {
        if (const auto task = ring_->try_take()) {
            run_task(WorkSpan::kTrainingThread, *task, own_scratch_, stage_now(), finished_times_);
        }
    }
    if (sequence_ >= end_sequence()) {
        return nullptr;
    }
    if (sequence_ % batches_per_epoch() == 0) {
        bad_in_epoch_ = 0;
    }
    ++sequence_;
    at_epoch_end_ = sequence_ % batches_per_epoch() == 0;
    std::shared_ptr<Batch> batch = ring_->pop();
    if (const std::shared_ptr<WorkLog> to = log()) {
        to->taken(ring_->finished());
    }
    if (batch != nullptr && !batch->bad_samples().empty()) {
        count_bad_samples(*batch);
    }
    return batch;
}

bool Loader::wait_for(std::chrono::milliseconds time) {
    return at_epoch_end_ || workers_.empty() || ring_->wait_for(time);
}

// Counts in batch order, so the batch that exceeds the budget is the same for any number of workers.
void Loader::count_bad_samples(Batch& batch) {
    std::ranges::stable_sort(batch.bad_samples(), {}, &BadSample::item);  // workers add them in any order
    bad_in_epoch_ += replaced_items(batch.bad_samples());
    const bool none_good = options_.replace && std::ranges::any_of(batch.bad_samples(), [](const BadSample& bad) {
                               return !bad.replaced_by;
                           });
    if (bad_in_epoch_ > options_.bad_samples || none_good) {
        throw_too_many_bad(*dataset_, options_.bad_samples, batch.bad_samples());
    }
}

LoaderState Loader::state() const {
    if (keys_ == 0) {
        keys_ = keys_hash(*dataset_);
        identity_ = data_identity(*dataset_);
        check_maps();
    }
    return {.epoch = sequence_ / batches_per_epoch(),
            .batch = sequence_ % batches_per_epoch(),
            .bad_samples = at_epoch_end_ || sequence_ % batches_per_epoch() == 0 ? 0 : bad_in_epoch_,
            .size = dataset_->size(),
            .keys = keys_,
            .identity = identity_,
            .batch_size = options_.batch_size,
            .seed = options_.seed,
            .order = sampler_->name(),
            .drop_last = options_.drop_last};
}

void Loader::restore(const LoaderState& state) {
    require_same_sampler(this->state(), state);
    const std::int64_t batches = batches_per_epoch();
    const std::int64_t last_epoch = std::min(kMaxEpochs, std::numeric_limits<std::int64_t>::max() / batches - 1);
    const bool inside = state.bad_samples >= 0 && state.epoch >= 0 && state.epoch <= last_epoch && state.batch >= 0 &&
                        state.batch < batches;
    if (!inside) {
        throw InvalidArgument({.where = "loader state",
                               .expected = fmt::format("batch 0 to {} of epoch 0 or later", batches - 1),
                               .got = fmt::format("batch {} of epoch {}", state.batch, state.epoch)});
    }
    stop();
    bad_in_epoch_ = state.bad_samples;
    start(state.epoch * batches + state.batch);
}

LoaderStats Loader::stats() const {
    LoaderStats stats;
    stats.workers = finished_times_;
    for (const auto& worker : workers_) {
        const std::lock_guard lock(worker->mutex);
        stats.workers += worker->times;
    }
    stats.cached_bytes = cache_ ? cache_->bytes() : 0;
    stats.cache_stop_reason = cache_ ? cache_->stop_reason() : "";
    return stats;
}

}  // namespace stoker

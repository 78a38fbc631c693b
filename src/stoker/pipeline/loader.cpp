// Threads, order and errors of the loader. What happens to one sample is in fill_sample; what a
// batch is made of, in batch.h; who may work on what, in ring.h.
#include "stoker/pipeline/loader.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <new>
#include <system_error>

#include "stoker/base/error.h"

namespace stoker {
namespace {

// The generator's counter has 32 bits for the epoch.
constexpr std::int64_t kMaxEpochs = std::int64_t{1} << 32;

SamplerOptions sampler_options(const Source& source, const LoaderOptions& options) {
    return {.size = source.size(),
            .batch_size = options.batch_size,
            .seed = options.seed,
            .shuffle = options.shuffle,
            .drop_last = options.drop_last,
            .rank = options.rank,
            .world_size = options.world_size};
}

// A batch of more than this does not stay in a cache until the training thread comes to it.
constexpr std::size_t kStreamBytes = std::size_t{8} << 20;

std::vector<FieldSpec> image_fields(const ImageSlot& slot) {
    return {{.name = std::string(kImageField),
             .dtype = slot.pixels.dtype,
             .shape = {slot.channels, slot.height, slot.width},
             .layout = slot.pixels.layout == Layout::hwc ? FieldLayout::channels_last : FieldLayout::plain},
            {.name = std::string(kLabelField), .dtype = DType::int64},
            {.name = std::string(kIndexField), .dtype = DType::int64},
            {.name = std::string(kKeyField), .ragged = true}};
}

// Enough pieces that all workers share in a batch, few enough that claiming them costs nothing.
std::int64_t task_grain(std::int64_t batch, int workers) {
    return std::clamp<std::int64_t>(batch / (4 * std::int64_t{std::max(workers, 1)}), 1, 32);
}

// Inside a catch block: throws on what a sample's bytes or its source threw, with its place. What the
// system or the caller is to blame for stays what it is.
[[noreturn]] void rethrow_located(const Source& source, std::int64_t index) {
    const DataPlace place{.path = source.path(), .key = source.key(index), .index = index};
    try {
        throw;
    } catch (const DataError& error) {
        throw error.located(place);
    } catch (const Error&) {
        throw;
    } catch (const std::bad_alloc&) {
        throw;
    } catch (const std::exception& error) {
        throw DataError(place, {.where = "source", .expected = "a sample that can be read", .got = error.what()});
    }
}

// So that a source need not set what does not concern it: nothing stays of the sample before.
void read_sample(const Source& source, std::int64_t index, Sample& sample) {
    sample.bytes = {};
    sample.encoded = false;
    sample.height = sample.width = sample.channels = 0;
    sample.label = -1;
    source.read(index, sample);
}

}  // namespace

Loader::Loader(std::shared_ptr<const Source> source, Transform transform, const LoaderOptions& options)
    : source_(std::move(source)),
      transform_(std::move(transform)),
      options_(options),
      sampler_(sampler_options(*source_, options)) {
    if (options_.allocator == nullptr) {
        options_.allocator = &host_allocator();
    }
    options_.workers = std::max(options_.workers, 0);
    options_.prefetch = std::max(options_.prefetch, 1);
    if (options_.epochs < 0 || options_.epochs > kMaxEpochs) {
        throw InvalidArgument({.where = "loader",
                               .expected = fmt::format("epochs from 0 (no end) to {}", kMaxEpochs),
                               .got = fmt::to_string(options_.epochs)});
    }
    if (!is_pixel_dtype(options_.dtype)) {
        throw InvalidArgument({.where = "loader",
                               .expected = "a dtype of uint8, float16, bfloat16 or float32",
                               .got = std::string(dtype_name(options_.dtype))});
    }
    Sample sample;
    StageTimes times;
    StageClock clock(times);
    try {
        read_sample(*source_, 0, sample);
        const ConstImageView image = transform_.augment(transform_.prepare(sample, own_scratch_, clock),
                                                        {.seed = options_.seed, .sample = 0}, own_scratch_);
        place_ = {.pixels = {.dtype = options_.dtype, .layout = options_.layout},
                  .channels = image.channels,
                  .height = image.height,
                  .width = image.width};
        fields_ = image_fields(place_);
        const auto capacity = static_cast<std::size_t>(sampler_.max_slice());
        place_.pixels.streamed = fields_.front().sample_bytes() >= kStreamBytes / capacity;
    } catch (...) {
        rethrow_located(*source_, 0);
    }
    if (options_.cache_bytes > 0) {
        cache_ = std::make_unique<RamCache>(source_->size(), options_.cache_bytes);
    }
    try {
        start(0);
    } catch (...) {
        stop();
        throw;
    }
}

std::int64_t Loader::end_sequence() const {
    const std::int64_t batches = batches_per_epoch();
    constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
    return options_.epochs == 0 || options_.epochs > kNever / batches ? kNever : options_.epochs * batches;
}

Loader::~Loader() {
    stop();
}

void Loader::start(std::int64_t sequence) {
    const std::int64_t batches = batches_per_epoch();
    sequence_ = sequence;
    at_epoch_end_ = false;
    ring_ = std::make_shared<BatchRing>(
        [fields = fields_, capacity = sampler_.max_slice(), allocator = options_.allocator] {
            return std::make_unique<Batch>(fields, capacity, *allocator);
        },
        [this, sampler = sampler_, batches](Batch& batch, std::int64_t number) {
            const Slice slice = sampler.slice(number % batches);
            const Sampler::Order order = sampler.order(number / batches);
            batch.reset(number / batches, number % batches, slice.count);
            const auto indices = batch.field(kIndexField).as<std::int64_t>();
            for (std::int64_t i = 0; i < slice.count; ++i) {
                indices[static_cast<std::size_t>(i)] = order(slice.first + i);
            }
            source_->prefetch(indices);
        },
        sequence, end_sequence());
    set_workers(options_.workers);
}

void Loader::stop() {
    ring_->stop();
    resize_workers(0);
}

void Loader::set_workers(int workers) {
    options_.workers = std::max(workers, 0);
    ring_->set_grain(task_grain(sampler_.max_slice(), options_.workers));
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
            throw IoError({.where = "loader",
                           .expected = fmt::format("{} worker threads", workers),
                           .got = fmt::format("{} ({})", id, error.code().message()),
                           .hint = "use fewer workers"});
        }
    }
}

void Loader::set_prefetch(int prefetch) {
    options_.prefetch = std::max(prefetch, 1);
    ring_->set_depth(options_.workers == 0 ? 1 : options_.prefetch);
}

void Loader::work(int id, Worker& worker) {
    for (;;) {
        StageTimes times;
        StageClock clock(times);
        const auto task = ring_->take(id);
        clock.lap(Stage::blocked);
        if (task) {
            run_task(*task, worker.sample, worker.scratch, times);
        }
        const std::lock_guard lock(worker.mutex);
        worker.times += times;
        if (!task) {
            return;
        }
    }
}

void Loader::run_task(const RingTask& task, Sample& sample, TransformScratch& scratch, StageTimes& times) {
    std::int64_t item = task.begin;
    std::exception_ptr error;
    try {
        const SlotView slot{task.batch->field(kImageField).data, task.batch->field(kLabelField).as<std::int64_t>(),
                            task.batch->field(kIndexField).as<std::int64_t>()};
        for (; item < task.end && !ring_->stopped(); ++item) {
            fill_sample(*task.batch, slot, item, sample, scratch, times);
        }
    } catch (...) {
        error = std::current_exception();
    }
    // Outside the catch block, so that this thread lets go of the exception before another throws it.
    ring_->complete(task, std::move(error), item);
}

void Loader::fill_sample(Batch& batch, const SlotView& slot, std::int64_t item, Sample& sample,
                         TransformScratch& scratch, StageTimes& times) {
    const auto at = static_cast<std::size_t>(item);
    const std::int64_t index = slot.indices[at];
    StageClock clock(times);
    try {
        batch.payload(kKeyField, item) = source_->key(index);
        ImageSlot place = place_;
        place.pixels.data = slot.image + at * fields_.front().sample_bytes();
        const RngKey key{.seed = options_.seed,
                         .epoch = static_cast<std::uint32_t>(batch.epoch()),
                         .sample = static_cast<std::uint64_t>(index)};
        if (!cache_) {
            read_sample(*source_, index, sample);
            clock.lap(Stage::read);
            transform_.run(sample, key, scratch, place, clock);
        } else {
            // The label is cached with the pixels: reading it alone would open the file again.
            ConstImageView image = cache_->get(index, sample.label);
            if (image.data == nullptr) {
                read_sample(*source_, index, sample);
                clock.lap(Stage::read);
                image = transform_.prepare(sample, scratch, clock);
                cache_->put(index, image, sample.label);
            }
            transform_.run(image, key, scratch, place);
        }
        slot.labels[at] = sample.label;
    } catch (...) {
        rethrow_located(*source_, index);
    }
    clock.lap(Stage::augment);
    ++times.samples;
}

std::shared_ptr<Batch> Loader::next() {
    if (at_epoch_end_) {
        at_epoch_end_ = false;
        return nullptr;
    }
    while (workers_.empty() && !ring_->ready()) {
        if (const auto task = ring_->try_take()) {
            run_task(*task, own_sample_, own_scratch_, finished_times_);
        }
    }
    if (sequence_ >= end_sequence()) {
        return nullptr;
    }
    ++sequence_;
    at_epoch_end_ = sequence_ % batches_per_epoch() == 0;
    return ring_->pop();
}

LoaderState Loader::state() const {
    return {.epoch = sequence_ / batches_per_epoch(),
            .batch = sequence_ % batches_per_epoch(),
            .size = source_->size(),
            .batch_size = options_.batch_size,
            .seed = options_.seed,
            .shuffle = options_.shuffle,
            .drop_last = options_.drop_last};
}

void Loader::restore(const LoaderState& state) {
    LoaderState own = this->state();
    own.epoch = state.epoch;
    own.batch = state.batch;
    const std::int64_t batches = batches_per_epoch();
    const std::int64_t last_epoch = std::min(kMaxEpochs, std::numeric_limits<std::int64_t>::max() / batches - 1);
    const bool inside = state.epoch >= 0 && state.epoch <= last_epoch && state.batch >= 0 && state.batch < batches;
    if (own != state || !inside) {
        throw InvalidArgument({.where = "loader state",
                               .expected = "the state of a loader with the same data, batch_size, seed, shuffle and "
                                           "drop_last: " +
                                           to_json(own),
                               .got = to_json(state),
                               .hint = "resume with the recipe and the data that the run began with"});
    }
    stop();
    start(state.epoch * batches + state.batch);
}

LoaderStats Loader::stats() const {
    LoaderStats stats;
    stats.workers = finished_times_;
    for (const auto& worker : workers_) {
        const std::lock_guard lock(worker->mutex);
        stats.workers += worker->times;
    }
    stats.ring = ring_->stats();
    stats.cached_bytes = cache_ ? cache_->bytes() : 0;
    return stats;
}

}  // namespace stoker

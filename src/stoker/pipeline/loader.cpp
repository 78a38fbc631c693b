// Worker threads, batch order, prefetching and state of the loader. writers/ write one sample; ring.cpp schedules the
// work.
#include "stoker/pipeline/loader.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <limits>

#include "stoker/base/error.h"
#include "stoker/base/map_damage.h"
#include "stoker/base/memory_limit.h"
#include "stoker/pipeline/read_sample.h"

namespace stoker {
namespace {

std::shared_ptr<const Sampler> sampler_of(const LoaderOptions& options, std::int64_t samples) {
    if (options.buckets != nullptr) {
        return options.buckets;
    }
    return options.sampler != nullptr
               ? options.sampler
               : make_sampler({.size = samples, .seed = options.seed, .shuffle = options.shuffle});
}

BatchSamplerOptions batches_of(const LoaderOptions& options, const Sampler& sampler) {
    return {.size = sampler.size(),
            .batch_size = options.batch_size,
            .drop_last = options.drop_last,
            .rank = options.rank,
            .world_size = options.world_size,
            .begins = options.buckets != nullptr ? options.buckets->begins() : std::vector<std::int64_t>()};
}

void require_valid(const LoaderOptions& options, const Sampler& sampler, std::int64_t samples) {
    if (options.epochs < 0 || options.epochs > kMaxEpochs) {
        throw InvalidArgument({.where = "train.epochs",
                               .expected = fmt::format("0 (unlimited) to {}", kMaxEpochs),
                               .got = fmt::to_string(options.epochs)});
    }
    const std::int64_t sizes = std::ssize(options.bucket_sizes);
    if (sizes > 0 && (options.buckets == nullptr || options.buckets->longest() >= sizes)) {
        throw InvalidArgument({.where = "loader",
                               .expected = "a sampler of buckets whose lengths are numbers of bucket_sizes",
                               .got = fmt::format("{} sizes and another", sizes)});
    }
    if (sampler.samples() != samples || sampler.seed() != options.seed) {
        throw InvalidArgument({.where = "loader",
                               .expected = fmt::format("a sampler of {} samples and seed {}", samples, options.seed),
                               .got = fmt::format("one of {} and seed {}", sampler.samples(), sampler.seed())});
    }
}

}  // namespace

Loader::Loader(std::shared_ptr<const Dataset> dataset, Transform transform, const LoaderOptions& options)
    : dataset_(std::move(dataset)),
      transform_(std::move(transform)),
      options_(options),
      sampler_(sampler_of(options, dataset_->size())),
      batch_sampler_(batches_of(options, *sampler_)),
      fields_(*dataset_, transform_, options_, batch_sampler_.max_slice()),
      bad_(*dataset_, options.bad_samples),
      threads_([this](const RingTask& task, WorkerBuffers& buffers, StageTime begin, StageTimes& times) {
          return fill_task(task, buffers, begin, times);
      }) {
    if (options_.allocator == nullptr) {
        options_.allocator = &host_allocator();
    }
    options_.workers = std::max(options_.workers, 0);
    options_.prefetch = std::max(options_.prefetch, 1);
    require_valid(options_, *sampler_, dataset_->size());
    find_shapes();
    writer_ = make_writer(fields_);
    try {
        claim_and_start();
    } catch (const Error&) {
        const std::optional<ImageOptions> smaller = writer_->smaller();
        if (!smaller) {
            throw;
        }
        options_.images = *smaller;
        writer_ = make_writer(fields_);
        claim_and_start();
    }
}

// The first good sample gives the shapes of all images and masks.
void Loader::find_shapes() {
    SampleScratch& scratch = threads_.own().scratch;
    for (std::int64_t index = 0; fields_.have_pixels(); ++index) {
        try {
            try {
                scratch.drawn = false;
                const RngKey key{.seed = options_.seed, .sample = static_cast<std::uint64_t>(index)};
                const FrameWindow wanted = fields_.frames_of(index, key);
                read_sample(*dataset_, index, scratch.sample, wanted);
                scratch.decode_recording(wanted, fields_.transform().options().channels);
                fields_.find_shapes(index, scratch);
                check_maps();
                return;
            } catch (...) {
                rethrow_located(*dataset_, index);
            }
        } catch (const DataError& error) {
            bad_.add_first(index, error, /*remember=*/!scratch.drawn, most_substitutes(options_.bad_samples));
        }
    }
}

void Loader::claim_and_start() {
    memory_ = std::make_shared<BatchMemory>(writer_->fields(), batch_sampler_.max_slice(), ring_batches(),
                                            /*twice=*/writer_->smaller().has_value(), *options_.allocator);
    writer_->open_cache();
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

std::int64_t Loader::end_sequence() const {
    const std::int64_t batches = batches_per_epoch();
    constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
    return options_.epochs == 0 || options_.epochs > kNever / batches ? kNever : options_.epochs * batches;
}

Loader::~Loader() {
    stop();
    memory_->release();
}

void Loader::start(std::int64_t sequence) {
    sequence_ = sequence;
    prefetched_ = sequence;
    prefetch_until(sequence + 1);
    at_epoch_end_ = false;
    ring_ = std::make_shared<BatchRing>([memory = memory_] { return memory->make(); },
                                        [this](Batch& batch, std::int64_t number) { open_batch(batch, number); },
                                        sequence, end_sequence());
    if (options_.held > 0) {
        ring_->reserve(std::min(ring_batches(), end_sequence() - sequence));
    }
    set_workers(options_.workers);
}

void Loader::open_batch(Batch& batch, std::int64_t sequence) const {
    const std::int64_t epoch = sequence / batches_per_epoch();
    const std::int64_t number = sequence % batches_per_epoch();
    const BatchSlice slice = batch_sampler_.slice(number);
    const std::int64_t length = options_.buckets != nullptr ? options_.buckets->length(number) : 0;
    const std::vector<ImageSize>& sizes = options_.bucket_sizes;
    batch.reset(epoch, number, slice.count, length,
                sizes.empty() ? ImageSize() : sizes[static_cast<std::size_t>(length)]);
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

void Loader::prefetch_batch(std::int64_t sequence) const {
    if (!writer_->reads()) {
        return;
    }
    const BatchSlice slice = batch_sampler_.slice(sequence % batches_per_epoch());
    std::vector<SampledIndex> draws(static_cast<std::size_t>(slice.count));
    sampler_->draw(sequence / batches_per_epoch(), slice.first, draws);
    std::vector<std::int64_t> indices(draws.size());
    std::ranges::transform(draws, indices.begin(), &SampledIndex::index);
    writer_->prefetch(indices);
}

void Loader::stop() {
    if (ring_ == nullptr) {
        return;  // the start failed before
    }
    ring_->stop();
    threads_.resize(0, *ring_);
}

void Loader::set_workers(int workers) {
    options_.workers = std::max(workers, 0);
    ring_->set_grain(TaskGrain::least_for(batch_sampler_.max_slice(), options_.workers));
    ring_->set_depth(options_.workers == 0 ? 1 : options_.prefetch);
    threads_.resize(options_.workers, *ring_);
}

void Loader::set_prefetch(int prefetch) {
    options_.prefetch = std::max(prefetch, 1);
    ring_->set_depth(options_.workers == 0 ? 1 : options_.prefetch);
}

StageTime Loader::fill_task(const RingTask& task, WorkerBuffers& buffers, StageTime begin, StageTimes& times) {
    const auto began = std::chrono::steady_clock::now();  // `begin` is empty while the account is off
    std::int64_t item = task.begin;
    std::exception_ptr error;
    buffers.stages.begin_task(begin);
    try {
        with_checked_maps([&] {
            if (task.begin == 0) {
                prefetch_until(task.sequence + 2);  // also the next batch
            }
            const SampleCache* const cache = writer_->cache();
            const auto& draws = task.batch->sampled();
            for (; item < task.end && !ring_->stopped(); ++item) {
                constexpr std::int64_t kAhead = 2;
                if (cache != nullptr && item + kAhead < task.end) {
                    cache->prefetch(draws[static_cast<std::size_t>(item + kAhead)].index);
                }
                const std::uint64_t huge = huge_allocations();
                buffers.stages.next_sample();
                fill_item({*task.batch, item, task.urgent}, buffers);
                if (huge_allocations() != huge) {  // or each worker would keep the memory of the largest image
                    buffers.scratch = SampleScratch();
                }
            }
        });
    } catch (...) {
        error = std::current_exception();
    }
    const StageTime end = stage_now();
    buffers.stages.end_task(times, end);
    // After the catch block: this thread releases the exception before the consumer rethrows it.
    ring_->complete(task, std::move(error), item, std::chrono::steady_clock::now() - began);
    return end;
}

// Prepares the sample that the sampler chose, or its first good substitute. A substitute is augmented with the random
// numbers of the original sample, which no other item of the epoch uses.
void Loader::fill_item(const ItemPlace& place, WorkerBuffers& buffers) {
    Batch& batch = place.batch;
    const SampledIndex chosen = batch.sampled()[static_cast<std::size_t>(place.item)];
    const RngKey key{.seed = options_.seed,
                     .epoch = static_cast<std::uint32_t>(batch.epoch()),
                     .sample = static_cast<std::uint64_t>(chosen.index),
                     .occurrence = chosen.occurrence};
    std::optional<BadSample> bad = try_sample(chosen.index, key, place, buffers);
    std::optional<std::int64_t> used = bad ? std::nullopt : std::optional(chosen.index);
    const std::int64_t position = batch_sampler_.slice(batch.number()).first + place.item;
    const std::int64_t most = options_.replace ? most_substitutes(options_.bad_samples) : 0;
    for (std::int64_t attempt = 0; !used && attempt < most && !ring_->stopped(); ++attempt) {
        const std::optional<std::int64_t> other = sampler_->substitute(batch.epoch(), position, attempt);
        if (!other) {
            break;  // no good sample
        }
        used = try_sample(*other, key, place, buffers) ? std::nullopt : other;
    }
    if (used) {
        fields_.write_labels(buffers.scratch.sample.label, *used, dataset_->key(*used), place);
    } else if (!options_.replace) {
        writer_->clear(place);
        fields_.clear(place);
        fields_.write_labels(-1, chosen.index, "", place);
    }
    if (bad) {
        bad->item = place.item;
        bad->replaced_by = used;
        bad_.list_in(batch, std::move(*bad));
    }
}

// Returns why the sample is bad; empty for a good one. Samples that are bad whatever is drawn are not read again.
std::optional<BadSample> Loader::try_sample(std::int64_t index, const RngKey& key, const ItemPlace& place,
                                            WorkerBuffers& buffers) {
    if (auto known = bad_.find(index)) {
        return known;
    }
    try {
        try {
            write_sample(index, key, place, buffers);
            return std::nullopt;
        } catch (...) {
            rethrow_located(*dataset_, index);
        }
    } catch (const DataError& error) {
        const auto* const other_size = dynamic_cast<const SizeMismatch*>(&error);
        if (!options_.size && other_size != nullptr && options_.clips.sample_rate > 0) {
            ErrorInfo info = error.info();
            info.hint = "data.seconds gives sounds one length, and data.channels = 1 makes stereo mono";
            throw SizeMismatch(error.place(), info);
        }
        if (!options_.size && other_size != nullptr) {
            throw;
        }
        // What depends on the draw, such as whether a crop reaches the damage, is found again each time: otherwise
        // a restart or another rank, which knows nothing of it, would replace other samples.
        return bad_.add(index, error, /*remember=*/!buffers.scratch.drawn);
    }
}

void Loader::write_sample(std::int64_t index, const RngKey& key, const ItemPlace& place, WorkerBuffers& buffers) {
    StageTimes& timed = buffers.stages.timed();
    StageClock clock(timed, buffers.stages.on());
    buffers.scratch.drawn = false;
    buffers.scratch.on_device = false;
    buffers.scratch.use_index(options_.jpeg_index.get());
    writer_->write({.index = index, .key = key, .place = place, .scratch = buffers.scratch, .clock = clock});
    clock.lap(Stage::augment);
    ++timed.samples;
    timed.on_device += buffers.scratch.on_device ? 1 : 0;
}

std::shared_ptr<Batch> Loader::next(const OnBadSamples& on_bad_samples) {
    try {
        std::shared_ptr<Batch> batch = take_batch();
        if (on_bad_samples && batch != nullptr && !batch->bad_samples().empty()) {
            on_bad_samples(batch->bad_samples());
        }
        return batch;
    } catch (const TooManyBadSamples& error) {
        if (on_bad_samples) {
            on_bad_samples(error.samples());
        }
        throw;
    }
}

std::shared_ptr<Batch> Loader::take_batch() {
    if (at_epoch_end_) {
        at_epoch_end_ = false;
        return nullptr;
    }
    while (threads_.size() == 0 && !ring_->ready()) {
        if (const auto task = ring_->try_take()) {
            threads_.run_here(*task, *ring_);
        }
    }
    if (sequence_ >= end_sequence()) {
        return nullptr;
    }
    if (sequence_ % batches_per_epoch() == 0) {
        bad_.begin_epoch();
    }
    ++sequence_;
    at_epoch_end_ = sequence_ % batches_per_epoch() == 0;
    if (at_epoch_end_ && options_.jpeg_index != nullptr) {
        options_.jpeg_index->flush();
    }
    std::shared_ptr<Batch> batch = ring_->pop();
    if (const std::shared_ptr<WorkLog> log = threads_.log()) {
        log->taken(ring_->finished());
    }
    if (batch != nullptr && !batch->bad_samples().empty()) {
        bad_.count(*batch, options_.replace);
    }
    return batch;
}

bool Loader::wait_for(std::chrono::milliseconds time) {
    return at_epoch_end_ || threads_.size() == 0 || ring_->wait_for(time);
}

LoaderState Loader::state() const {
    if (keys_ == 0) {
        keys_ = keys_hash(*dataset_);
        identity_ = data_identity(*dataset_);
        check_maps();
    }
    return {.epoch = sequence_ / batches_per_epoch(),
            .batch = sequence_ % batches_per_epoch(),
            .bad_samples = at_epoch_end_ || sequence_ % batches_per_epoch() == 0 ? 0 : bad_.counted(),
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
    require_position(state, batches_per_epoch());
    stop();
    bad_.begin_epoch(state.bad_samples);
    start(state.epoch * batches_per_epoch() + state.batch);
}

LoaderStats Loader::stats() const {
    const SampleCache* const cache = writer_->cache();
    const JpegIndex* const index = options_.jpeg_index.get();
    return {.workers = threads_.times(),
            .cached_bytes = cache != nullptr ? cache->bytes() : 0,
            .cache_stop_reason = cache != nullptr ? cache->stop_reason() : "",
            .jpeg_index_stop_reason = index != nullptr ? index->stop_reason() : ""};
}

}  // namespace stoker

// The loader: worker threads prepare batches ahead of the training thread. The order depends on (seed, epoch) alone.
// Workers begin the next epoch before the training thread has finished the current one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/pipeline/bad_sample_list.h"
#include "stoker/pipeline/batch.h"
#include "stoker/pipeline/loader_options.h"
#include "stoker/pipeline/loader_state.h"
#include "stoker/pipeline/ring.h"
#include "stoker/pipeline/sample_writer.h"
#include "stoker/pipeline/sampling/batch_sampler.h"
#include "stoker/pipeline/sampling/sampler.h"
#include "stoker/pipeline/transforms/transform.h"
#include "stoker/pipeline/work_log.h"
#include "stoker/pipeline/worker_threads.h"
#include "stoker/records/stages.h"

namespace stoker {

struct LoaderStats {
    StageTimes workers;             // summed over all workers
    std::int64_t cached_bytes = 0;  // in the cache's memory or file
    std::string cache_stop_reason;  // why the cache stopped growing below its budget, e.g. a full disk; usually empty
    std::string jpeg_index_stop_reason;  // why nothing is added to the index; usually empty
};

using OnBadSamples = std::function<void(std::span<const BadSample>)>;

// Used by one thread, which calls `next` and all else; the workers are its own.
class Loader {
  public:
    // Reads the first good sample to find the shape of the image field. Throws InvalidArgument for impossible options,
    // and the error of that read.
    Loader(std::shared_ptr<const Dataset> dataset, Transform transform, const LoaderOptions& options);
    Loader(const Loader&) = delete;
    Loader& operator=(const Loader&) = delete;
    ~Loader();

    // Waits for the next batch. Returns null once at the end of every epoch (the next call begins the next epoch), and
    // always after the last epoch. A bad sample is replaced by the sampler's substitute and listed in the batch.
    // Throws TooManyBadSamples past `bad_samples` in an epoch; system errors are rethrown unchanged. A batch whose
    // preparation threw is skipped by the following call. A batch stays valid while it is held, even after the loader
    // is destroyed; the loader allocates another for it. `on_bad_samples` is called with the batch's bad samples,
    // and with those of TooManyBadSamples.
    std::shared_ptr<Batch> next(const OnBadSamples& on_bad_samples = nullptr);

    // Waits at most `time` for the next batch. True: next() returns at once, or does the work itself (no workers). For
    // a caller that has something else to look at, such as a signal.
    bool wait_for(std::chrono::milliseconds time);

    // The batches of one epoch, as next() gives them: for (const std::shared_ptr<Batch>& batch : loader).
    class EpochIterator {
      public:
        explicit EpochIterator(Loader& loader) : loader_(&loader), batch_(loader.next()) {}
        const std::shared_ptr<Batch>& operator*() const { return batch_; }
        EpochIterator& operator++() {
            batch_.reset();  // its slot is free while next() waits
            batch_ = loader_->next();
            return *this;
        }
        bool operator==(std::default_sentinel_t /*end*/) const { return batch_ == nullptr; }

      private:
        Loader* loader_;
        std::shared_ptr<Batch> batch_;
    };
    // Takes the first batch, so a second loop goes over the next epoch.
    EpochIterator begin() { return EpochIterator(*this); }
    std::default_sentinel_t end() const { return {}; }

    // The same for every rank.
    std::int64_t batches_per_epoch() const { return batch_sampler_.batches(); }
    const BatchSampler& batch_sampler() const { return batch_sampler_; }
    const Dataset& dataset() const { return *dataset_; }
    const Transform& transform() const { return transform_; }
    const LoaderOptions& options() const { return options_; }
    // (C, H, W); empty where the samples have no images.
    Shape image_shape() const { return fields_.views() > 0 ? field_specs().front().value_shape() : Shape(); }
    const std::vector<FieldSpec>& field_specs() const { return writer_->fields(); }  // of the batches

    // The position of the next batch. A restored loader continues with exactly that batch, for any number of workers
    // or ranks. Throws InvalidArgument for a state of other data or options.
    LoaderState state() const;
    // Drops the batches that were made ahead.
    void restore(const LoaderState& state);

    // The images of IndexedImages; null: none; and why not, if they were wanted.
    const ImageTable* indexed_images() const {
        const auto* const indexed = std::get_if<IndexedImages>(&options_.images);
        return indexed != nullptr ? indexed->table.get() : nullptr;
    }
    const std::string& why_not_indexed() const { return options_.why_not_indexed; }

    int workers() const { return options_.workers; }
    int prefetch() const { return options_.prefetch; }
    // Batches that were finished when `next` was called last; empty without workers.
    std::optional<std::int64_t> ready_batches() const {
        return threads_.size() == 0 ? std::nullopt : std::optional(ring_->ready_at_pop());
    }
    // True while the workers have nothing to do: all batches ahead are finished, or the loader is without workers.
    bool at_rest() const { return threads_.size() == 0 || ring_->full(); }
    // Takes effect at once and changes no batch: waits for workers that end, or starts new ones. 0: next() does the
    // work. Throws IoError where the system gives no further thread.
    void set_workers(int workers);
    // Batches ahead of the one in use; at least 1.
    void set_prefetch(int prefetch);

    // Since the loader was made.
    LoaderStats stats() const;

    // Records every piece of work that begins from now on; null: none. A piece that has begun keeps its log until it is
    // done.
    void set_log(std::shared_ptr<WorkLog> log) { threads_.set_log(std::move(log)); }

  private:
    void find_shapes();
    std::int64_t ring_batches() const;
    std::int64_t end_sequence() const;
    void claim_and_start();
    void start(std::int64_t sequence);
    void stop();
    void open_batch(Batch& batch, std::int64_t sequence) const;
    std::shared_ptr<Batch> take_batch();
    void prefetch_until(std::int64_t end);
    void prefetch_batch(std::int64_t sequence) const;
    StageTime fill_task(const RingTask& task, WorkerBuffers& buffers, StageTime begin, StageTimes& times);
    void fill_item(const ItemPlace& place, WorkerBuffers& buffers);
    std::optional<BadSample> try_sample(std::int64_t index, const RngKey& key, const ItemPlace& place,
                                        WorkerBuffers& buffers);
    void write_sample(std::int64_t index, const RngKey& key, const ItemPlace& place, WorkerBuffers& buffers);

    const std::shared_ptr<const Dataset> dataset_;
    // keys_hash and data_identity of the data set, computed by the first state(); 0: not yet
    mutable std::uint64_t keys_ = 0;
    mutable std::uint64_t identity_ = 0;
    const Transform transform_;
    LoaderOptions options_;
    const std::shared_ptr<const Sampler> sampler_;
    const BatchSampler batch_sampler_;
    LoaderFields fields_;
    BadSampleList bad_;
    std::unique_ptr<SampleWriter> writer_;
    std::shared_ptr<BatchMemory> memory_;  // also the ring's, which batches that are held keep
    std::shared_ptr<BatchRing> ring_;
    WorkerThreads threads_;
    std::mutex prefetch_mutex_;    // guards prefetched_
    std::int64_t prefetched_ = 0;  // the first batch not yet passed to Dataset::prefetch
    std::int64_t sequence_ = 0;    // of the next batch: epoch * batches_per_epoch + number
    bool at_epoch_end_ = false;
};

}  // namespace stoker

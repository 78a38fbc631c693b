// The loader: worker threads that turn samples of a dataset into batches ahead of the training
// thread, in an order that depends on (seed, epoch) alone, epoch after epoch without a gap.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/pipeline/batch.h"
#include "stoker/pipeline/cache/sample_cache.h"
#include "stoker/pipeline/loader_state.h"
#include "stoker/pipeline/ring.h"
#include "stoker/pipeline/sampling/batch_sampler.h"
#include "stoker/pipeline/sampling/sampler.h"
#include "stoker/pipeline/transforms/transform.h"
#include "stoker/trace/stages.h"

namespace stoker {

struct LoaderOptions {
    std::int64_t batch_size = 64;  // over all ranks; each rank's loader yields batch_size / world_size
    int workers = 1;               // threads; 0: the caller's thread does the work inside next()
    int prefetch = 3;              // batches in flight beyond the one in use
    std::int64_t epochs = 0;       // how many there will be; 0: no end
    std::uint64_t seed = 0;
    bool shuffle = true;
    std::shared_ptr<const Sampler> sampler = nullptr;  // null: of (seed, shuffle) over the whole dataset
    // Places of an epoch, of this rank, whose bad sample may be replaced; 0: the first bad one ends it.
    std::int64_t bad_samples = 0;
    bool replace = true;  // false: the place of a bad sample is left empty, zeros without a label
    // That images must have, and those of another are bad samples; none: that of the first, and one of another ends it.
    std::optional<ImageSize> size = {};
    std::int64_t classes = 0;  // a sample whose label is not below is bad; 0: any label, or none, is good
    bool drop_last = false;
    int rank = 0;
    int world_size = 1;
    DType dtype = DType::float32;  // of the image field: float32, float16, bfloat16; uint8: pixels, not normalised
    Layout layout = Layout::chw;   // hwc: the image field is (C, H, W) in channels-last memory
    CacheOptions cache = {};
    Allocator* allocator = nullptr;  // of the batch slots; null: plain host memory. Must outlive every batch.
};

struct LoaderStats {
    StageTimes workers;  // summed over all workers
    RingStats ring;
    std::int64_t cached_bytes = 0;
    std::string cache_trouble;  // why the cache stopped growing before its budget: a full disk; mostly empty
};

class Loader {
  public:
    // Reads one sample to learn the shape of the image field. Throws InvalidArgument for options that
    // cannot be, and what reading that sample threw. Images of another shape are bad samples.
    Loader(std::shared_ptr<const Dataset> dataset, Transform transform, const LoaderOptions& options);
    Loader(const Loader&) = delete;
    Loader& operator=(const Loader&) = delete;
    ~Loader();

    // The next batch; null once at the end of every epoch (the call after it begins the next), and
    // always after the last. Waits for workers. A sample whose bytes are bad is replaced by the next good one
    // after it in the dataset, and listed in the batch; past `bad_samples` of them in an epoch TooManyBadSamples
    // lists some. Errors of the system are thrown as they are. A batch that threw is skipped. A batch stays valid
    // while it is held, also beyond the loader; memory grows with the number of batches held.
    std::shared_ptr<Batch> next();

    std::int64_t batches_per_epoch() const { return batch_sampler_.batches(); }
    const BatchSampler& batch_sampler() const { return batch_sampler_; }
    const Dataset& dataset() const { return *dataset_; }
    const Shape& image_shape() const { return fields_.front().shape; }  // (C, H, W)

    // Where the next batch lies. Restoring it, at any number of workers or ranks, goes on with that
    // very batch. Throws InvalidArgument for the state of other data or options.
    LoaderState state() const;
    void restore(const LoaderState& state);

    int workers() const { return options_.workers; }
    void set_workers(int workers);
    void set_prefetch(int prefetch);

    LoaderStats stats() const;

  private:
    // What one thread keeps from sample to sample.
    struct WorkerScratch {
        Sample sample;
        TransformScratch scratch;
        Buffer packed;  // pixels on their way into the cache
    };
    struct Worker {
        std::thread thread;
        WorkerScratch hands;  // made by the caller's thread, which can be told of a failure
        std::mutex mutex;     // guards times
        StageTimes times;
    };
    // The fixed fields of a batch slot.
    struct SlotView {
        std::byte* image;  // (N, C, H, W) or (N, H, W, C)
        std::span<std::int64_t> labels;
        std::span<std::int64_t> indices;
    };

    std::int64_t end_sequence() const;
    void start(std::int64_t sequence);
    void stop();
    void resize_workers(int workers);
    void work(int id, Worker& worker);
    ImageSlot find_shape();
    void open_batch(Batch& batch, std::int64_t sequence) const;
    void announce_to(std::int64_t end);
    void announce(std::int64_t sequence) const;
    void run_task(const RingTask& task, WorkerScratch& hands, StageTimes& times);
    void fill_item(Batch& batch, const SlotView& slot, std::int64_t item, WorkerScratch& hands, StageTimes& times);
    bool try_sample(std::int64_t index, const RngKey& key, const ImageSlot& place, WorkerScratch& hands,
                    StageTimes& times, std::vector<BadSample>& bad);
    void fill_sample(std::int64_t index, const RngKey& key, const ImageSlot& place, WorkerScratch& hands,
                     StageTimes& times);
    BadSample note_bad(std::int64_t index, const DataError& error);
    std::optional<BadSample> known_bad(std::int64_t index);
    void count_bad(Batch& batch);

    const std::shared_ptr<const Dataset> dataset_;
    mutable std::uint64_t keys_ = 0;  // keys_hash, once asked for
    const Transform transform_;
    LoaderOptions options_;
    const std::shared_ptr<const Sampler> sampler_;
    const BatchSampler batch_sampler_;
    std::vector<FieldSpec> fields_;
    ImageSlot place_;  // of every image, but for where it lies
    std::unique_ptr<SampleCache> cache_;
    std::shared_ptr<BatchRing> ring_;
    std::vector<std::unique_ptr<Worker>> workers_;
    WorkerScratch own_scratch_;  // of the caller's thread, for workers = 0
    std::mutex bad_mutex_;       // guards known_bad_, and the batches' lists of bad samples while they are filled
    std::unordered_map<std::int64_t, BadSample> known_bad_;  // by index
    std::atomic<bool> any_bad_ = false;                      // known_bad_ holds something
    StageTimes finished_times_;                              // of workers that are gone, and of the caller's thread
    std::mutex announce_mutex_;                              // guards announced_
    std::int64_t announced_ = 0;                             // the first batch that the dataset has not been told of
    std::int64_t sequence_ = 0;                              // of the next batch: epoch * batches_per_epoch + number
    std::int64_t bad_in_epoch_ = 0;
    bool at_epoch_end_ = false;
};

}  // namespace stoker

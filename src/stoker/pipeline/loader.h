// The loader: worker threads that turn samples of a source into batches ahead of the training
// thread, in an order that depends on (seed, epoch) alone, epoch after epoch without a gap.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "stoker/formats/source.h"
#include "stoker/pipeline/batch.h"
#include "stoker/pipeline/cache.h"
#include "stoker/pipeline/ring.h"
#include "stoker/pipeline/sampler.h"
#include "stoker/pipeline/state.h"
#include "stoker/pipeline/transform.h"
#include "stoker/trace/stages.h"

namespace stoker {

struct LoaderOptions {
    std::int64_t batch_size = 64;  // over all ranks; each rank's loader yields batch_size / world_size
    int workers = 1;               // threads; 0: the caller's thread does the work inside next()
    int prefetch = 3;              // batches in flight beyond the one in use
    std::int64_t epochs = 0;       // how many there will be; 0: no end
    std::uint64_t seed = 0;
    bool shuffle = true;
    bool drop_last = false;
    int rank = 0;
    int world_size = 1;
    DType dtype = DType::float32;    // of the image field: float32, float16, bfloat16; uint8: pixels, not normalised
    Layout layout = Layout::chw;     // hwc: the image field is (C, H, W) in channels-last memory
    std::int64_t cache_bytes = 0;    // decoded images kept in memory, up to this many bytes
    Allocator* allocator = nullptr;  // of the batch slots; null: plain host memory. Must outlive every batch.
};

struct LoaderStats {
    StageTimes workers;  // summed over all workers
    RingStats ring;
    std::int64_t cached_bytes = 0;
};

class Loader {
  public:
    // Reads one sample to learn the shape of the image field. Throws InvalidArgument for options that
    // cannot be, and what reading that sample threw. Images of another shape are errors of `next`.
    Loader(std::shared_ptr<const Source> source, Transform transform, const LoaderOptions& options);
    Loader(const Loader&) = delete;
    Loader& operator=(const Loader&) = delete;
    ~Loader();

    // The next batch; null once at the end of every epoch (the call after it begins the next), and
    // always after the last. Waits for workers. Throws what reading a sample threw: bad data, and
    // whatever else a source of one's own throws, as DataError with its path, key and index; errors of
    // the system as they are. The batch is then skipped. A batch stays valid while it is held, also
    // beyond the loader; memory grows with the number of batches held.
    std::shared_ptr<Batch> next();

    std::int64_t batches_per_epoch() const { return sampler_.batches(); }
    const Source& source() const { return *source_; }
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
    struct Worker {
        std::thread thread;
        Sample sample;  // these two are made by the caller's thread, which can be told of a failure
        TransformScratch scratch;
        std::mutex mutex;  // guards times
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
    void run_task(const RingTask& task, Sample& sample, TransformScratch& scratch, StageTimes& times);
    void fill_sample(Batch& batch, const SlotView& slot, std::int64_t item, Sample& sample, TransformScratch& scratch,
                     StageTimes& times);

    const std::shared_ptr<const Source> source_;
    const Transform transform_;
    LoaderOptions options_;
    const Sampler sampler_;
    std::vector<FieldSpec> fields_;
    ImageSlot place_;  // of every image, but for where it lies
    std::unique_ptr<RamCache> cache_;
    std::shared_ptr<BatchRing> ring_;
    std::vector<std::unique_ptr<Worker>> workers_;
    Sample own_sample_;  // of the caller's thread, for workers = 0
    TransformScratch own_scratch_;
    StageTimes finished_times_;  // of workers that are gone, and of the caller's thread
    std::int64_t sequence_ = 0;  // of the next batch: epoch * batches_per_epoch + number
    bool at_epoch_end_ = false;
};

}  // namespace stoker

// The loader: worker threads prepare batches ahead of the training thread. The order depends on (seed, epoch) alone.
// Workers begin the next epoch before the training thread has finished the current one.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "stoker/base/memory_limit.h"
#include "stoker/formats/dataset.h"
#include "stoker/pipeline/batch.h"
#include "stoker/pipeline/cache/sample_cache.h"
#include "stoker/pipeline/image_table.h"
#include "stoker/pipeline/loader_state.h"
#include "stoker/pipeline/ring.h"
#include "stoker/pipeline/sampling/batch_sampler.h"
#include "stoker/pipeline/sampling/sampler.h"
#include "stoker/pipeline/transforms/transform.h"
#include "stoker/pipeline/work_log.h"
#include "stoker/records/stages.h"

namespace stoker {

// How a batch holds one of the data set's further fields.
struct FieldOptions {
    std::string name;
    std::optional<std::int64_t> pad = {};             // entries of a field of any length; empty: ragged
    std::shared_ptr<const Transform> transform = {};  // of an image or mask; null: the loader's
};

struct LoaderOptions {
    std::int64_t batch_size = 64;  // over all ranks; each rank's loader yields batch_size / world_size samples
    int workers = 1;               // threads; 0: next() does the work in the caller's thread
    int prefetch = 3;              // batches in flight beyond the one in use
    std::int64_t epochs = 0;       // 0: unlimited
    std::uint64_t seed = 0;        // of the order and of random ops
    bool shuffle = true;
    std::shared_ptr<const Sampler> sampler = nullptr;  // null: the whole data set by (seed, shuffle)
    // How many bad samples this rank may replace in an epoch; 0: the first bad sample throws.
    std::int64_t bad_samples = 0;
    bool replace = true;  // false: a bad sample becomes zeros with label -1
    // Size of all images; others are bad samples. Empty: the size of the first image; another size throws.
    std::optional<ImageSize> size = {};
    std::int64_t classes = 0;      // samples with a label outside [0, classes) are bad; 0: labels are not checked
    bool drop_last = false;        // leave out an epoch's last batch if it is not full
    int rank = 0;                  // of this process, in [0, world_size)
    int world_size = 1;            // processes that share each batch; must divide batch_size
    DType dtype = DType::float32;  // of the image field: float32, float16, bfloat16, or uint8 (not normalised)
    Layout layout = Layout::chw;   // hwc: the image field is (C, H, W) in channels-last memory
    // The slots hold the images' bytes (N, H, W, C), a quarter of float32, and FieldSpec::late says how a device makes
    // floats in `layout` of them. `dtype` has no effect.
    bool normalize_late = false;
    // A device decodes what is a dct record, and normalises. The slots hold cuts of records, and the images' bytes
    // where the host made them (CutSlot), in so many bytes for each sample on average (cut_plan.h), or those of its
    // pixels if that is more. A cache keeps samples as stored. `dtype` has no effect. 0: the loader decodes.
    std::int64_t cut_bytes = 0;
    // With cut_bytes: the device decodes only what the caller needs soon. While the workers are ahead of it they decode
    // themselves. Slots have at most twice the bytes of the images' pixels. Images that are too wide for a device, or
    // for which there is no such memory, are all the workers'.
    bool share_decoding = false;
    // Images that lie on a device: the slots hold a GatherDraw for each sample, and FieldSpec::late says how the device
    // makes floats in `layout` of them. `dtype`, `normalize_late`, `cut_bytes` and `cache` have no effect. null: the
    // loader reads.
    std::shared_ptr<const ImageTable> images = nullptr;
    std::string why_no_images = {};         // where they were wanted
    int views = 1;                          // images of each sample, each with random numbers of its own
    std::vector<FieldOptions> fields = {};  // of the data set's further fields; others have the defaults
    CacheOptions cache = {};                // keeps samples for the next epochs; by default nothing
    Allocator* allocator = nullptr;         // for batches; null: plain host memory. Must outlive every batch.
    // Batches that the caller holds beside the one in use, such as those that a device still reads. If there are any,
    // all batches are allocated at the start: pinned memory takes milliseconds to allocate.
    int held = 0;
};

struct LoaderStats {
    StageTimes workers;             // summed over all workers
    std::int64_t cached_bytes = 0;  // in the cache's memory or file
    std::string cache_stop_reason;  // why the cache stopped growing below its budget, e.g. a full disk; usually empty
};

// Gets the bad samples of a batch.
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

    // `next()`, with a call of `on_bad_samples` for bad samples in the batch or in TooManyBadSamples; null: no call.
    std::shared_ptr<Batch> next(const OnBadSamples& on_bad_samples);
    // Waits for the next batch. Returns null once at the end of every epoch (the next call begins the next epoch), and
    // always after the last epoch. A bad sample is replaced by the sampler's substitute and listed in the batch.
    // Throws TooManyBadSamples past `bad_samples` in an epoch; system errors are rethrown unchanged. A batch whose
    // preparation threw is skipped by the following call. A batch stays valid while it is held, even after the loader
    // is destroyed; every held batch takes memory of its own.
    std::shared_ptr<Batch> next();

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
    // (C, H, W); empty where the samples have no images.
    Shape image_shape() const { return has_image_ ? fields_.front().value_shape() : Shape(); }
    const std::vector<FieldSpec>& field_specs() const { return fields_; }  // of the batches

    // The position of the next batch. A restored loader continues with exactly that batch, for any number of workers
    // or ranks. Throws InvalidArgument for a state of other data or options.
    LoaderState state() const;
    // Drops the batches that were made ahead.
    void restore(const LoaderState& state);

    // LoaderOptions::images and why_no_images.
    const ImageTable* images() const { return options_.images.get(); }
    const std::string& why_no_images() const { return options_.why_no_images; }

    int workers() const { return options_.workers; }
    int prefetch() const { return options_.prefetch; }
    // Batches that were finished when `next` was called last; empty without workers.
    std::optional<std::int64_t> ready_batches() const {
        return workers_.empty() ? std::nullopt : std::optional(ring_->ready_at_pop());
    }
    // True while the workers have nothing to do: all batches ahead are finished, or there are no workers.
    bool at_rest() const { return workers_.empty() || ring_->full(); }
    // Takes effect at once and changes no batch: waits for workers that end, or starts new ones. 0: next() does the
    // work. Throws IoError where the system gives no further thread.
    void set_workers(int workers);
    // Batches ahead of the one in use; at least 1.
    void set_prefetch(int prefetch);

    // Since the loader was made.
    LoaderStats stats() const;

    // Records every piece of work that begins from now on; null: none. A piece that has begun keeps its log until it is
    // done.
    void set_log(std::shared_ptr<WorkLog> log);

  private:
    // A view that is ready for its CutSlot.
    struct CutView {
        std::span<const std::byte> bytes;  // in `own`, or in the transform's scratch
        std::optional<AssembleDraw> draw;  // of a cut; empty: `bytes` are pixels, or they have their place already
        Buffer own;
    };
    // Buffers that a thread reuses for every sample.
    struct WorkerScratch {
        Sample sample;
        TransformScratch transform;
        TransformScratch fields;    // of further images and masks
        Buffer packed;              // contiguous pixels for the cache
        std::vector<CutView> cuts;  // of each view, with LoaderOptions::cut_bytes
        Buffer boxes;
        StageSampler stages;
        ImageSize image{};   // the size of the sample's image before the ops that ran on it last
        bool drawn = false;  // what fails from here on depends on the random numbers
    };
    struct Worker {
        std::thread thread;
        WorkerScratch scratch;  // allocated by the caller's thread, so that it sees a failure
        std::mutex mutex;       // guards times
        StageTimes times;
    };
    // One of the data set's further fields.
    struct FieldPlan {
        Field field;
        const Transform* transform;            // of an image or mask
        std::shared_ptr<const Transform> own;  // what `transform` points to, where that is not the loader's
        std::optional<std::int64_t> pad;
        ImageSlot slot = {};        // of an image or mask
        std::size_t at = 0;         // its place in the batch's fields
        std::size_t length_at = 0;  // with `pad`, of the field that holds the numbers of entries
    };

    std::int64_t ring_batches() const;
    std::shared_ptr<MemoryClaim> claim_ring() const;
    std::int64_t end_sequence() const;
    void claim_and_start();
    void start(std::int64_t sequence);
    void stop();
    void resize_workers(int workers);
    void work(int id, Worker& worker);
    void plan_fields();
    void find_shapes();
    void find_shapes_of(std::int64_t index);
    ImageSlot slot_of(ConstImageView image, std::optional<ImageSize> size) const;
    FieldSpec image_spec(std::string name, const ImageSlot& slot, const Transform& transform) const;
    FieldSpec view_spec(int view) const;
    void make_fields();
    void open_batch(Batch& batch, std::int64_t sequence) const;
    void prefetch_until(std::int64_t end);
    void prefetch_batch(std::int64_t sequence) const;
    std::shared_ptr<WorkLog> log();
    // Both begin at `begin` and return when the samples were ready, by stage_now().
    StageTime run_task(int worker, const RingTask& task, WorkerScratch& scratch, StageTime begin, StageTimes& times);
    StageTime fill_task(const RingTask& task, WorkerScratch& scratch, StageTime begin, StageTimes& times);
    // The place of one sample in a batch.
    struct ItemPlace {
        Batch& batch;
        std::int64_t item;
        bool urgent;  // RingTask::urgent
    };
    void fill_batch_item(const ItemPlace& place, WorkerScratch& scratch);
    std::optional<BadSample> try_sample(std::int64_t index, const RngKey& key, const ItemPlace& place,
                                        WorkerScratch& scratch);
    void load_sample(std::int64_t index, const RngKey& key, const ItemPlace& place, WorkerScratch& scratch);
    void write_images(const RngKey& key, const ItemPlace& place, bool prepared, WorkerScratch& scratch,
                      StageClock& clock) const;
    void make_cut(int view, const RngKey& key, const ItemPlace& place, WorkerScratch& scratch, StageClock& clock) const;
    void make_cut_pixels(int view, const RngKey& key, const ItemPlace& place, WorkerScratch& scratch,
                         StageClock& clock) const;
    void place_cuts(const RngKey& key, const ItemPlace& place, WorkerScratch& scratch, StageClock& clock) const;
    void write_draws(std::int64_t index, const RngKey& key, const ItemPlace& place) const;
    void prepare_fields(WorkerScratch& scratch, StageClock& clock) const;
    void write_fields(const RngKey& key, const ItemPlace& place, OpRange range, WorkerScratch& scratch,
                      StageClock& clock) const;
    void write_field(const FieldPlan& plan, const FieldValue& value, const RngKey& key, const ItemPlace& place,
                     OpRange range, WorkerScratch& scratch, StageClock& clock) const;
    void write_elements(const FieldPlan& plan, std::span<const std::byte> bytes, const ItemPlace& place) const;
    void clear_item(const ItemPlace& place) const;
    // Places in fields_; views of the images follow the key.
    std::size_t label_at() const { return has_image_ ? 1 : 0; }
    std::size_t index_at() const { return label_at() + 1; }
    std::size_t key_at() const { return label_at() + 2; }
    std::size_t view_at(int view) const { return view == 0 ? 0 : key_at() + static_cast<std::size_t>(view); }
    BadSample record_bad_sample(std::int64_t index, const DataError& error, bool remember);
    std::optional<BadSample> find_bad_sample(std::int64_t index);
    void count_bad_samples(Batch& batch);

    const std::shared_ptr<const Dataset> dataset_;
    // keys_hash and data_identity of the data set, computed by the first state(); 0: not yet
    mutable std::uint64_t keys_ = 0;
    mutable std::uint64_t identity_ = 0;
    const Transform transform_;
    LoaderOptions options_;
    const std::shared_ptr<const Sampler> sampler_;
    const BatchSampler batch_sampler_;
    const bool has_image_;
    std::vector<FieldPlan> plans_;   // of the data set's fields beside image and label
    std::vector<FieldSpec> fields_;  // of a batch
    ImageSlot place_;                // the target of every image, without its address
    std::unique_ptr<SampleCache> cache_;
    std::shared_ptr<MemoryClaim> ring_claim_;  // for batches that are not allocated yet
    std::shared_ptr<BatchRing> ring_;
    std::vector<std::unique_ptr<Worker>> workers_;
    WorkerScratch own_scratch_;  // of the caller's thread, for workers = 0
    std::mutex bad_mutex_;       // guards recorded_bad_, and the batches' lists of bad samples while they are filled
    std::unordered_map<std::int64_t, BadSample> recorded_bad_;  // by index
    std::atomic<bool> any_bad_ = false;                         // recorded_bad_ is not empty
    std::atomic<bool> logs_ = false;  // log_ is not null; read before each piece, so that no log costs no lock
    std::mutex log_mutex_;            // guards log_
    std::shared_ptr<WorkLog> log_;
    StageTimes finished_times_;    // of workers that have ended, and of the caller's thread
    std::mutex prefetch_mutex_;    // guards prefetched_
    std::int64_t prefetched_ = 0;  // the first batch not yet passed to Dataset::prefetch
    std::int64_t sequence_ = 0;    // of the next batch: epoch * batches_per_epoch + number
    std::int64_t bad_in_epoch_ = 0;
    bool at_epoch_end_ = false;
};

}  // namespace stoker

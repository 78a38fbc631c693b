// The options of a loader: its batches and their order, its threads, and how images get into a batch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/dtype.h"
#include "stoker/codecs/jpeg/jpeg_index.h"
#include "stoker/formats/dataset.h"
#include "stoker/ops/normalize.h"
#include "stoker/pipeline/cache/sample_cache.h"
#include "stoker/pipeline/clip_options.h"
#include "stoker/pipeline/image_table.h"
#include "stoker/pipeline/sampling/batch_sampler.h"
#include "stoker/pipeline/sampling/bucket_sampler.h"
#include "stoker/pipeline/sampling/sampler.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker {

// How a batch holds one of the data set's further fields.
struct FieldOptions {
    std::string name;
    std::optional<std::int64_t> pad = {};             // entries of a field of any length; empty: ragged
    std::shared_ptr<const Transform> transform = {};  // of an image or mask; null: the loader's
    std::optional<MaskClasses> classes = {};          // of a mask; empty: its values are classes
};

// The loader decodes images and runs their ops.
struct PixelImages {
    // The loader normalises to this type: float32, float16, bfloat16, or uint8, which is not normalised. Empty: a
    // device normalises. The slots then hold bytes (N, H, W, C), a quarter of float32, and FieldSpec::deferred says how
    // a device makes floats of them.
    std::optional<DType> dtype = DType::float32;
    CacheOptions cache = {};     // by default nothing is kept
    bool cache_encoded = false;  // keeps samples as stored, instead of pixels prepared up to the first random op
};

// A device decodes what is a dct record, and normalises. The slots hold crops of records, and the images' bytes if
// the host made them (DctCropSlot).
struct PackedImages {
    // For each sample on average (dct_crop_plan.h); a slot has at least the bytes of the images' pixels.
    std::int64_t crop_bytes = 0;
    // The device decodes only what the caller needs soon; while the workers are ahead of it they decode themselves.
    // Slots have at most twice the bytes of the images' pixels. Images that are too wide for a device, or too
    // large for the memory, become as_bytes().
    bool shared = false;
    CacheOptions cache = {};  // keeps samples as stored

    PixelImages as_bytes() const { return {.dtype = std::nullopt, .cache = cache, .cache_encoded = true}; }
};

// The images are on a device: the slots hold a GatherDraw for each sample, and FieldSpec::deferred says how the device
// makes floats of them.
struct IndexedImages {
    std::shared_ptr<const ImageTable> table;
};

using ImageOptions = std::variant<PixelImages, PackedImages, IndexedImages>;

struct LoaderOptions {
    std::int64_t batch_size = 64;  // over all ranks; each rank's loader yields batch_size / world_size samples
    int workers = 1;               // threads; 0: next() does the work in the caller's thread
    int prefetch = 3;              // batches in flight beyond the one in use
    std::int64_t epochs = 0;       // 0: unlimited
    std::uint64_t seed = 0;        // of the order and of random ops
    bool shuffle = true;
    std::shared_ptr<const Sampler> sampler = nullptr;  // null: the whole data set by (seed, shuffle)
    // In place of `sampler`: batches by the lengths of the field `bucket_by`, which each batch pads to its own length.
    // `batch_size` is then its most_samples().
    std::shared_ptr<const BucketSampler> buckets = nullptr;
    std::string bucket_by = {};
    // With bucket_by = "image": the sizes that the buckets' lengths number, one for all images of a batch.
    std::vector<ImageSize> bucket_sizes = {};
    // How many bad samples this rank may replace in an epoch; 0: the first bad sample throws.
    std::int64_t bad_samples = 0;
    bool replace = true;  // false: a bad sample becomes zeros with label -1
    // Size of all images; others are bad samples. Empty: the size of the first image; another size throws.
    std::optional<ImageSize> size = {};
    std::int64_t channels = 0;  // with `size`: of all images, as in training; 0: those of the first
    // Samples with a label outside [0, classes) are bad; 0: labels are not checked.
    std::int64_t classes = 0;
    bool drop_last = false;       // leave out an epoch's last batch if it is not full
    int rank = 0;                 // of this process, in [0, world_size)
    int world_size = 1;           // processes that share each batch; must divide batch_size
    Layout layout = Layout::chw;  // of the images' floats; hwc: (C, H, W) in channels-last memory
    ImageOptions images = {};     // by default PixelImages
    // The type of main images that are not bytes if a device normalises those that are: float32, float16 or bfloat16.
    DType planes = DType::float32;
    std::string why_not_indexed = {};  // the reason, if IndexedImages were wanted
    int views = 1;                     // images of each sample, with different random numbers
    ClipOptions clips = {};
    std::vector<FieldOptions> fields = {};  // of the data set's further fields; others have the defaults
    bool image_sizes = false;  // a field kImageSizeField; with PixelImages, and no cache of prepared pixels
    std::shared_ptr<JpegIndex> jpeg_index = nullptr;  // of the data set's JPEGs; null: none
    Allocator* allocator = nullptr;                   // for batches; null: plain host memory. Must outlive every batch.
    // Batches that the caller holds apart from the one in use, such as those that a device still reads. If there are
    // any, all batches are allocated at the start: pinned memory takes milliseconds to allocate.
    int held = 0;
};

}  // namespace stoker

// One batch in memory: named fields of a fixed shape in one aligned block from a given allocator, and ragged
// fields with a payload of any length per sample. The loader reuses batches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/error.h"
#include "stoker/base/tensor_view.h"
#include "stoker/ops/gather.h"
#include "stoker/ops/normalize.h"
#include "stoker/pipeline/cache/image_memory.h"
#include "stoker/pipeline/dct_crop_slot.h"
#include "stoker/pipeline/sampling/sampler.h"

namespace stoker {

enum class FieldLayout : std::uint8_t {
    plain,          // (N, shape...), row-major
    channels_last,  // an image field of shape (C, H, W) whose memory is (N, H, W, C)
};

// The images that the GatherDraws of a field take their pixels from, and how.
struct DeferredGather {
    std::shared_ptr<const ImageBlock> images;
    GatherOps ops;
    ImageSize to;

    bool operator==(const DeferredGather&) const = default;
};

// The distances of neighbours in elements, of images (N, C, H, W) or clips (N, T, C, H, W) whose memory has the
// channels last.
std::vector<std::int64_t> channels_last_steps(const Shape& shape);

// How a device makes a field's images from a DctCropSlot.
struct DeferredDecode {
    ImageSize to;
    int channels = 3;
    std::optional<Color> erased_value = Color{};  // AssembleBatch::erased_value
    bool colors = false;                          // AssembleBatch::colors
    bool shared = false;                          // a DctCropSlot with a place for each sample's pixels

    std::size_t image_bytes() const {
        return static_cast<std::size_t>(to.height) * static_cast<std::size_t>(to.width) *
               static_cast<std::size_t>(channels);
    }
    bool operator==(const DeferredDecode&) const = default;
};

// The rest of the work on an image field that holds bytes (N, H, W, C): a device normalises them after the copy
// (bridge/pixels.h). With `gather` the field holds a GatherDraw for each sample. With `decode` it is a DctCropSlot, of
// which the copy to the device makes the bytes (deferred_images.h).
struct DeferredNormalize {
    NormalizeFactors factors;
    Layout layout = Layout::chw;  // of the floats
    std::optional<DeferredGather> gather = {};
    std::optional<DeferredDecode> decode = {};

    bool operator==(const DeferredNormalize&) const = default;
};

// Bytes [begin, end) of a field's memory.
struct UsedRange {
    std::size_t begin = 0;
    std::size_t end = 0;
};

// A field of every batch.
struct FieldSpec {
    std::string name;
    DType dtype = DType::uint8;
    Shape shape = {};  // of one sample; empty for a scalar
    FieldLayout layout = FieldLayout::plain;
    // A sample has any number of entries of `shape`, which follow each other.
    bool ragged = false;
    // The most entries that all samples of a batch have together, if each batch has its own first side
    // (Batch::entries), which is at most that of `shape`. 0: every batch has `shape`.
    std::int64_t most_entries = 0;
    // Each batch has its own height and width (Batch::image_size), the last two sides, of at most as many pixels as
    // `shape` has.
    bool own_size = false;
    std::optional<DeferredNormalize> deferred = {};  // of an image that is not PixelImages

    // The shape that a step reads: (C, H, W) of an image, also if the field holds GatherDraws or a DctCropSlot.
    Shape value_shape() const {
        if (deferred && deferred->decode) {
            return {deferred->decode->channels, deferred->decode->to.height, deferred->decode->to.width};
        }
        return deferred && deferred->gather
                   ? Shape{deferred->gather->images->channels, deferred->gather->to.height, deferred->gather->to.width}
                   : shape;
    }

    std::size_t sample_bytes() const { return static_cast<std::size_t>(element_count(shape)) * item_size(dtype); }
    std::size_t entry_bytes() const { return sample_bytes() / static_cast<std::size_t>(shape.front()); }
    // For a full batch of `capacity` samples.
    std::size_t batch_bytes(std::int64_t capacity) const {
        return most_entries > 0 ? entry_bytes() * static_cast<std::size_t>(most_entries)
                                : sample_bytes() * static_cast<std::size_t>(capacity);
    }
};

// A ragged field of a batch. Sample i has entries offsets[i] to offsets[i + 1].
struct RaggedView {
    Buffer storage;
    TensorView values;                  // (entries of all samples, shape...), in `storage`
    std::vector<std::int64_t> offsets;  // one more than there are samples; the first is 0
};

// The fields that every batch has, the first only where there are images. Further views of the images, image_2
// and so on, and the fields of the data set follow them.
inline constexpr std::string_view kImageField = "image";  // float32 (N, C, H, W), or PixelImages::dtype
inline constexpr std::string_view kLabelField = "label";  // int64 (N); -1 without labels
inline constexpr std::string_view kIndexField = "index";  // int64 (N), the sample's index in the data set
inline constexpr std::string_view kKeyField = "key";      // ragged, the sample's key as UTF-8
// int32 (N, 2), the image's height and width before the ops, but rotated as data.exif says
inline constexpr std::string_view kImageSizeField = "image_size";

// The name of view `view` of the images: "image", "image_2", ...
std::string view_name(int view);

// The int64 (N) field with the numbers of entries of the padded field `name`.
std::string length_name(std::string_view name);

// A sample that could not be read or decoded, and its replacement.
struct BadSample {
    std::int64_t item = 0;   // position in the batch
    std::int64_t index = 0;  // in the data set
    std::string key;
    std::optional<std::int64_t> offset;            // of the damage, in bytes, if known
    std::string reason;                            // "expected X, got Y"
    std::optional<std::int64_t> replaced_by = {};  // index; empty: no sample is good, or none was wanted
    bool other_size = false;                       // the image is fine but not of LoaderOptions::size
    std::string hint = {};                         // what to do, as the error says
};

// How many items of the batch were replaced. `bad` is sorted by item.
std::int64_t replaced_items(std::span<const BadSample> bad);

// An epoch has more bad samples than its budget allows. `samples()` are those of the batch that exceeded it.
class TooManyBadSamples : public DataError {
  public:
    TooManyBadSamples(const DataPlace& place, const ErrorInfo& info, std::vector<BadSample> samples)
        : DataError(place, info), samples_(std::move(samples)) {}
    const std::vector<BadSample>& samples() const { return samples_; }

  private:
    std::vector<BadSample> samples_;
};

// Shared by those that hold it: its memory goes back to the loader with the last shared_ptr.
class Batch {
  public:
    // Memory for `capacity` samples, at once. The loader makes the batches that `next` returns.
    Batch(std::vector<FieldSpec> fields, std::int64_t capacity, Allocator& allocator);

    std::int64_t size() const { return size_; }           // samples; fewer than `capacity` in a last batch
    std::int64_t capacity() const { return capacity_; }   // samples that fit
    std::int64_t epoch() const { return epoch_; }         // from 0
    std::int64_t number() const { return number_; }       // within the epoch, from 0
    std::int64_t entries() const { return entries_; }     // the first side of fields with FieldSpec::most_entries
    ImageSize image_size() const { return image_size_; }  // of fields with FieldSpec::own_size
    const std::vector<FieldSpec>& fields() const { return fields_; }
    bool pinned() const { return pinned_; }  // a GPU copies from this memory without waiting

    // (size(), shape...). Throws InvalidArgument for an unknown or ragged field.
    TensorView field(std::string_view name) const;

    // Sample i's bytes of fixed field number `field`.
    std::span<std::byte> item(std::size_t field, std::int64_t i);

    // The slot of a field with DeferredNormalize::decode.
    DctCropSlot crop_slot(std::size_t field);
    DctCropCapacity& crop_capacity(std::size_t field) { return *crop_capacities_.at(field); }
    // For such a field that is shared: whether workers made the pixels of all samples.
    bool has_only_pixels(std::size_t field) const;
    // The bytes of such a field that a device needs, in order: only the pixels where it has nothing to make.
    std::vector<UsedRange> used_ranges(std::size_t field) const;

    // The bytes of a field that are in use, from the field's beginning on. Throws InvalidArgument for an unknown or
    // ragged field.
    std::size_t used_bytes(std::string_view name) const;

    // Sample i's payload of a ragged field. Throws InvalidArgument for an unknown or fixed field.
    std::string& payload(std::string_view name, std::int64_t i);
    std::string& payload(std::size_t field, std::int64_t i) {
        return payloads_.at(field).at(static_cast<std::size_t>(i));
    }

    // All elements of a ragged field, sample after sample, and where each sample begins. Throws InvalidArgument for an
    // unknown or fixed field.
    RaggedView ragged(std::string_view name) const;

    // The samples that the sampler chose, one per item. The field `index` differs where a bad sample was replaced.
    std::span<SampledIndex> sampled() { return std::span(sampled_).first(static_cast<std::size_t>(size_)); }

    // The bad samples among those that the sampler chose, sorted by item; usually empty.
    const std::vector<BadSample>& bad_samples() const { return bad_samples_; }
    std::vector<BadSample>& bad_samples() { return bad_samples_; }

    // XXH3 over the samples' keys in order: equal hashes mean the same samples in the same order.
    std::uint64_t hash() const;

    // Called by the loader before it fills the batch.
    void reset(std::int64_t epoch, std::int64_t number, std::int64_t size, std::int64_t entries = 0,
               ImageSize image_size = {});

  private:
    std::size_t find(std::string_view name, bool ragged) const;
    Shape shape_of(const FieldSpec& spec) const;

    std::vector<FieldSpec> fields_;
    std::vector<std::size_t> sample_bytes_;           // of each field, in this batch
    std::vector<std::size_t> offsets_;                // of each fixed field in memory_
    std::vector<std::vector<std::string>> payloads_;  // of each ragged field
    std::vector<std::unique_ptr<DctCropCapacity>>
        crop_capacities_;  // of each field with DeferredNormalize::decode; else null
    std::vector<SampledIndex> sampled_;
    std::vector<BadSample> bad_samples_;
    Buffer memory_;
    std::int64_t capacity_;
    std::int64_t size_ = 0;
    std::int64_t epoch_ = 0;
    std::int64_t number_ = 0;
    std::int64_t entries_ = 0;
    ImageSize image_size_{};
    bool pinned_;
};

}  // namespace stoker

// One batch in memory: named fields of a fixed shape in one aligned block from a given allocator,
// plus ragged fields (a payload of any length for each sample). The loader reuses its slots.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/error.h"
#include "stoker/base/tensor_view.h"
#include "stoker/pipeline/sampling/sampler.h"

namespace stoker {

enum class FieldLayout : std::uint8_t {
    plain,          // (N, shape...), row-major
    channels_last,  // an image field of shape (C, H, W) whose memory is (N, H, W, C)
};

struct FieldSpec {
    std::string name;
    DType dtype = DType::uint8;
    Shape shape = {};  // of one sample; empty for a scalar
    FieldLayout layout = FieldLayout::plain;
    bool ragged = false;  // shape and layout are ignored

    std::size_t sample_bytes() const { return static_cast<std::size_t>(element_count(shape)) * item_size(dtype); }
};

// The fields that every image batch has.
inline constexpr std::string_view kImageField = "image";  // float32 (N, C, H, W)
inline constexpr std::string_view kLabelField = "label";  // int64 (N); -1 without labels
inline constexpr std::string_view kIndexField = "index";  // int64 (N), the sample's index in the source
inline constexpr std::string_view kKeyField = "key";      // ragged, the sample's key as UTF-8

// A sample that could not be read or decoded, and the one that stands in for it.
struct BadSample {
    std::int64_t item = 0;   // the place in the batch that it was tried for
    std::int64_t index = 0;  // in the source
    std::string key;
    std::optional<std::int64_t> offset;  // of the damage, in bytes, where known
    std::string reason;                  // "expected X, got Y"
    std::optional<std::int64_t> replaced_by =
        {};                   // index, the same for all that were tried at this place; empty where none was good
    bool other_size = false;  // of its image, and nothing else: LoaderOptions::size
};

// Places of a batch that were filled by others: all that were tried for one place count as one. In order of the items.
std::int64_t replaced_items(std::span<const BadSample> bad);

// More bad samples in an epoch than its budget allows; `samples` are those of the batch that went past it.
class TooManyBadSamples : public DataError {
  public:
    TooManyBadSamples(const DataPlace& place, const ErrorInfo& info, std::vector<BadSample> samples)
        : DataError(place, info), samples_(std::move(samples)) {}
    const std::vector<BadSample>& samples() const { return samples_; }

  private:
    std::vector<BadSample> samples_;
};

class Batch {
  public:
    Batch(std::vector<FieldSpec> fields, std::int64_t capacity, Allocator& allocator);

    std::int64_t size() const { return size_; }
    std::int64_t capacity() const { return capacity_; }
    std::int64_t epoch() const { return epoch_; }
    std::int64_t number() const { return number_; }  // within the epoch, from 0
    const std::vector<FieldSpec>& fields() const { return fields_; }
    bool pinned() const { return pinned_; }

    // (size(), shape...). Throws InvalidArgument for a name that is not there or is ragged.
    TensorView field(std::string_view name) const;

    // Sample i's payload of a ragged field.
    std::string& payload(std::string_view name, std::int64_t i);
    const std::string& payload(std::string_view name, std::int64_t i) const;

    // What the order asked for, item by item. The field `index` differs where a bad sample was replaced.
    std::span<Draw> draws() { return std::span(draws_).first(static_cast<std::size_t>(size_)); }

    // In the order of the items; mostly empty.
    const std::vector<BadSample>& bad_samples() const { return bad_samples_; }
    std::vector<BadSample>& bad_samples() { return bad_samples_; }

    // XXH3 over the samples' keys in order: equal hashes mean the same samples in the same order.
    std::uint64_t hash() const;

    // Called by the loader before the slot is filled.
    void reset(std::int64_t epoch, std::int64_t number, std::int64_t size);

  private:
    std::size_t find(std::string_view name, bool ragged) const;

    std::vector<FieldSpec> fields_;
    std::vector<std::size_t> offsets_;                // of each fixed field in memory_
    std::vector<std::vector<std::string>> payloads_;  // of each ragged field
    std::vector<Draw> draws_;
    std::vector<BadSample> bad_samples_;
    Buffer memory_;
    std::int64_t capacity_;
    std::int64_t size_ = 0;
    std::int64_t epoch_ = 0;
    std::int64_t number_ = 0;
    bool pinned_;
};

}  // namespace stoker

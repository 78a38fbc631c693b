// The interface that every data set has: a size, and random access to samples. A data set of your own in C++ is a class
// derived from Dataset with a constructor, `size` and `read`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/tensor_view.h"

namespace stoker {

// The part of a data set that has two: MNIST's train-* or t10k-* files, synth's training or test images.
enum class Split { train, test };

constexpr std::string_view split_name(Split split) {
    return split == Split::train ? "train" : "test";
}

// The meaning of a field's values. It decides how ops change them and how a batch holds them.
enum class FieldKind : std::uint8_t {
    value,   // numbers, carried unchanged
    label,   // class indices, or 0 and 1 for each class; carried unchanged
    image,   // pixels, raw or encoded: all ops
    mask,    // a class index for each pixel of the image, raw or encoded: the ops that move pixels, nearest pixel
    boxes,   // float32 (any, 4), x1 y1 x2 y2 in pixels of the image: the ops that move pixels, and clipping
    tokens,  // ids of a vocabulary; carried unchanged
    bytes,   // uint8 of any length
};

std::string_view field_kind_name(FieldKind kind);
// Empty for another name.
std::optional<FieldKind> field_kind_named(std::string_view name);

constexpr bool has_pixels(FieldKind kind) {
    return kind == FieldKind::image || kind == FieldKind::mask;
}

// The types that an image's pixels may have. Images of uint8 with up to kMaxByteChannels channels run as bytes, all
// others as float32 planes (base/planes.h).
inline constexpr int kMaxByteChannels = 4;
inline constexpr int kMaxChannels = 64;
constexpr bool is_image_dtype(DType dtype) {
    return dtype != DType::int32 && dtype != DType::int64;
}

// A field to read in addition to image and label.
struct FieldRequest {
    std::string name;
    std::string from = {};                         // its name in the data; empty, or in packed data: `name`
    std::optional<FieldKind> kind = std::nullopt;  // empty: the format chooses
    bool any_length = false;                       // samples may differ in it, also if those looked at do not

    const std::string& source() const { return from.empty() ? name : from; }
};

// The names of the image field and the label field, for data sets with named fields (HDF5, npz, stk, WebDataset,
// pickled dicts). An empty name is chosen among the usual ones, which fields.h lists.
struct FieldNames {
    std::string image;
    std::string label;
    std::vector<FieldRequest> more = {};  // such as the targets of a regression
    bool unlabelled = false;              // `label` may be missing, or hold other values
    // Images are clips or volumes: arrays of three sides are (T, H, W), and a folder of images is a sample.
    bool clips = false;
};

// A field that the samples of a data set have in addition to image and label.
struct Field {
    std::string name;  // also of the batch's field
    FieldKind kind = FieldKind::value;
    DType dtype = DType::float32;  // uint8 for masks, and for images unless they are arrays of another type
    // The shape of one sample, row-major; empty for a scalar. A first side of -1 means any length, which differs
    // between samples. Empty for images and masks, whose samples have their own sizes.
    Shape shape = {};
    std::vector<std::string> classes = {};  // names of a label's class indices, if the data have names

    bool any_length() const { return !shape.empty() && shape.front() < 0; }
    // The size of one sample, or of one entry along the first side if that side has any length.
    std::size_t item_bytes() const;
    // Class names are not compared: formats that store only numbers have none.
    bool operator==(const Field& other) const {
        return name == other.name && kind == other.kind && dtype == other.dtype && shape == other.shape;
    }
};

// "angle float32 (), mask uint8 (32, 32)", for messages; "none".
std::string describe_fields(std::span<const Field> fields);

// The type of a field that holds elements T, or arrays of them. Empty for types of one byte, which may hold anything,
// and for those that no field has.
template <typename T>
constexpr std::optional<DType> element_dtype() {
    if constexpr (std::is_array_v<T> || std::is_const_v<T>) {
        return element_dtype<std::remove_cv_t<std::remove_all_extents_t<T>>>();
    } else if constexpr (requires {
                             typename T::value_type;
                             std::tuple_size<T>::value;
                         }) {  // std::array
        return element_dtype<typename T::value_type>();
    } else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
        return dtype_of<T>::value;
    } else if constexpr (std::is_integral_v<T> && sizeof(T) >= sizeof(std::int32_t)) {
        return sizeof(T) == sizeof(std::int32_t) ? DType::int32 : DType::int64;
    } else {
        return std::nullopt;
    }
}

// The frames of a clip, or the slices of a volume, that are read: `count` of them, `stride` apart. A sound's frames are
// its samples after resampling to `sample_rate`.
struct FrameWindow {
    std::int64_t count = 0;  // 0: all of them, with a stride of 1
    std::int64_t stride = 1;
    double at = 0.5;      // the place of the first among those that it may have: 0 is the earliest, 1 the latest
    int sample_rate = 0;  // Hz; 0: the sound's own

    // Their numbers, for a clip of `total` frames, which is at least 1. A clip that is too short repeats its last.
    std::vector<std::int64_t> of(std::int64_t total) const;
    bool operator==(const FrameWindow&) const = default;
};

// A sample's value of one field as stored. `bytes` is an encoded image (JPEG, PNG, ...), raw pixels (height, width,
// channels), of uint8 unless `dtype` says another type, or an array's elements. It points into the dataset or into
// `storage` and stays valid until the sample is read into again.
struct FieldValue {
    std::span<const std::byte> bytes;
    bool encoded = false;  // `bytes` is an image file
    int height = 0;        // of raw pixels; otherwise 0
    int width = 0;
    int channels = 0;
    bool planes = false;                        // raw pixels are (channels, height, width)
    std::optional<DType> dtype = std::nullopt;  // of elements, if their source stored it
    std::uint64_t page = 0;                     // of a TIFF: its place in the file; 0: the first
    Buffer storage;                             // for datasets that have to copy or read
    FrameWindow wanted = {};                    // of a clip, set before the sample is read
    // The frames of a clip that `wanted` names, each an image; `bytes` is then empty. `clip_frames`: of the whole clip.
    std::vector<FieldValue> frames = {};
    std::int64_t clip_frames = 0;

    // All of them set everything but `storage` and `wanted`.
    void set_raw(std::span<const std::byte> pixels, int rows, int columns, int depth) {
        bytes = pixels;
        encoded = false;
        height = rows;
        width = columns;
        channels = depth;
        planes = false;
        dtype.reset();
        page = 0;
        frames.clear();
        clip_frames = 0;
    }
    // The numbers of the frames to add, for a clip of `total` frames.
    std::vector<std::int64_t> begin_clip(std::int64_t total) {
        set_raw({}, 0, 0, 0);
        clip_frames = total;
        return wanted.of(total);
    }
    // Raw pixels that do not run as bytes.
    bool is_deep() const {
        return !encoded && height > 0 && (dtype.value_or(DType::uint8) != DType::uint8 || channels > kMaxByteChannels);
    }
    void set_encoded_image(std::span<const std::byte> image) {
        set_raw(image, 0, 0, 0);
        encoded = true;
    }
    // Refers to `elements`, which stay valid as `bytes` does. Their type must be the field's.
    template <typename Elements>
    void set_elements(const Elements& elements) {
        const std::span values(elements);
        set_raw(std::as_bytes(values), 0, 0, 0);
        dtype = element_dtype<typename decltype(values)::element_type>();
    }
    // The same of a copy.
    template <typename Elements>
    void copy_elements(const Elements& elements) {
        const std::span values(elements);
        const auto source = std::as_bytes(values);
        storage.resize(source.size());
        std::ranges::copy(source, storage.data());
        set_raw(storage.bytes(), 0, 0, 0);
        dtype = element_dtype<typename decltype(values)::element_type>();
    }
};

// One sample: its image, its label and further fields. Each worker reuses one Sample, so that its memory is kept.
struct Sample : FieldValue {
    std::int64_t label = -1;         // class index; -1 in a dataset without labels
    std::vector<FieldValue> fields;  // in the order of Dataset::fields()

    // Field number `at` of Dataset::fields(), made if `fields` is shorter.
    FieldValue& field(std::size_t at) {
        while (fields.size() <= at) {
            fields.emplace_back().wanted = wanted;
        }
        return fields[at];
    }
};

// Samples by index. Many threads use one object at once.
class Dataset {
  public:
    virtual ~Dataset() = default;

    // The number of samples; it must not change.
    virtual std::int64_t size() const = 0;

    // Reads sample `index` in [0, size()). Many threads call it at once. Throws DataError for damaged bytes and IoError
    // for a failed read; the caller adds the index.
    virtual void read(std::int64_t index, Sample& sample) const = 0;

    // False if the samples have no image, such as the windows of a token stream.
    virtual bool has_image() const { return true; }

    // The fields other than image and label. `read` sets Sample::fields in this order; a value of another length, or of
    // elements of another type, than its field has makes the sample a bad one.
    virtual std::span<const Field> fields() const { return {}; }

    // All stored fields other than image and label, asked for or not, under the names that FieldRequest::from
    // takes. Kinds are guesses. For `stoker inspect`: may read the files again. Throws as opening does.
    virtual std::vector<Field> stored_fields() const { return {}; }

    // The sample's stable name within the dataset, such as "cat/001.jpg". Batch hashes, splits by share and lists of
    // bad samples use it. The default is the index.
    virtual std::string key(std::int64_t index) const { return std::to_string(index); }

    // Announces the samples that are read next, a batch at a time. Must not wait for them. It is a hint: errors show
    // when the samples are read.
    virtual void prefetch(std::span<const std::int64_t> /*indices*/) const {}

    // The sample's class index (-1: no label) where it is known without reading the sample; otherwise empty.
    virtual std::optional<std::int64_t> label(std::int64_t /*index*/) const { return std::nullopt; }

    // The number of entries of field `at`, which has any length, if it is known without reading the sample.
    virtual std::optional<std::int64_t> entries(std::int64_t /*index*/, std::size_t /*at*/) const {
        return std::nullopt;
    }

    // The numbers of samples in parts that are best read one after the other, such as shards behind a network. Empty
    // if every order is equally good.
    virtual std::vector<std::int64_t> shard_sizes() const { return {}; }

    // Names of the classes by label; empty if there are none.
    virtual std::span<const std::string> classes() const { return {}; }

    // "idx", "image_folder", ...
    virtual std::string_view format() const { return "custom"; }

    // The data's path or URL, for messages.
    virtual std::string path() const { return ""; }

    // One line of advice if the way the data are stored makes reading slow or leaves files out; otherwise empty.
    virtual std::string advice() const { return ""; }

    // Bytes on disk (in memory for data that Stoker draws); 0 where unknown.
    virtual std::int64_t bytes() const { return 0; }

  protected:
    // Throws InvalidArgument unless `index` is in [0, size()).
    void check_index(std::int64_t index) const;
};

// The sample's key, or its index if the record that holds the key is damaged.
std::string key_or_index(const Dataset& dataset, std::int64_t index);

// Dataset::label; empty also for a bad label, which is reported when the sample is read.
std::optional<std::int64_t> known_label(const Dataset& dataset, std::int64_t index);

}  // namespace stoker

// Data sets: opening, subsets, and single samples as stored, decoded.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <fmt/format.h>
#include <functional>

#include "python/src/arrays.h"
#include "python/src/bindings.h"
#include "python/src/interruptible.h"
#include "stoker/base/error.h"
#include "stoker/base/map_damage.h"
#include "stoker/codecs/video/video.h"
#include "stoker/formats/arrow/arrow_calls.h"
#include "stoker/formats/arrow/open_arrow.h"
#include "stoker/formats/concat.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/open.h"
#include "stoker/formats/subset.h"
#include "stoker/formats/table/table_dataset.h"
#include "stoker/io/byte_file.h"
#include "stoker/pipeline/dataset_advice.h"
#include "stoker/pipeline/read_sample.h"
#include "stoker/pipeline/transforms/transform.h"
#include "stoker/recipe/field_keys.h"

namespace stoker::python {
namespace {

// Name, its name in the data (empty: the same) and kind (empty: the format chooses).
using FieldTuple = std::tuple<std::string, std::string, std::string>;

FieldRequest field_request(const FieldTuple& given) {
    const auto& [name, from, kind] = given;
    FieldRequest request{.name = name, .from = from, .kind = field_kind_named(kind)};
    if (!is_field_name(name)) {
        throw InvalidArgument({.where = "fields",
                               .expected = "a name of letters, digits and \"_\", not image, label, index or key",
                               .got = fmt::format("\"{}\"", name)});
    }
    if (!kind.empty() && !request.kind) {
        throw InvalidArgument({.where = fmt::format("fields: {}", name),
                               .expected = "a kind: value, label, image, mask, boxes, tokens or bytes",
                               .got = fmt::format("\"{}\"", kind)});
    }
    return request;
}

FieldNames field_names(const std::string& image, const std::string& label, const std::vector<FieldTuple>& fields,
                       bool clips = false) {
    FieldNames names{.image = image, .label = label, .clips = clips};
    std::ranges::transform(fields, std::back_inserter(names.more), field_request);
    return names;
}

// Images of a folder with the table of labels in `csv`.
OpenData open_table(const std::string& folder, const std::string& csv, const std::string& image,
                    const std::string& label, const std::vector<FieldTuple>& fields) {
    const FieldNames names = field_names(image, label, fields);
    return {.dataset = std::make_shared<TableDataset>(TableText{.folder = folder, .csv = csv}, names), .names = names};
}

OpenData open(const std::string& path, const std::string& split, const std::string& image, const std::string& label,
              const std::vector<FieldTuple>& fields, const std::int64_t& context, const bool& clips) {
    const FieldNames names = field_names(image, label, fields, clips);
    if (split != "train" && split != "test" && split != "validation") {
        throw InvalidArgument(
            {.where = "split", .expected = R"("train", "test" or "validation")", .got = '"' + split + '"'});
    }
    if (split != "train" && !has_splits(path)) {
        throw InvalidArgument(
            {.where = path, .expected = "data with a test split, such as a folder of IDX files", .got = "one split"});
    }
    return {.dataset = open_dataset(path, split == "train" ? Split::train : Split::test,
                                    {.fields = names, .context = context, .validation = split == "validation"}),
            .names = names};
}

// A table in memory: an object's __arrow_c_stream__().
OpenData open_stream(const nb::capsule& capsule, const std::string& folder, const std::string& image,
                     const std::string& label, const std::vector<FieldTuple>& fields, bool clips) {
    const FieldNames names = field_names(image, label, fields, clips);
    auto* const stream = static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule.ptr(), "arrow_array_stream"));
    if (stream == nullptr) {
        throw nb::python_error();
    }
    const auto owned = std::make_shared<ArrowOwned<ArrowArrayStream>>();  // Ctrl-C may leave a thread behind
    *owned->get() = std::exchange(*stream, {});
    return {.dataset = interruptible(
                [=]() -> std::shared_ptr<const Dataset> { return open_arrow_stream(owned->get(), folder, names); }),
            .names = names};
}

// The samples of all, one data set after the other.
OpenData concat(const std::vector<OpenData>& all) {
    const nb::gil_scoped_release release;
    std::vector<std::shared_ptr<const Dataset>> parts;
    std::ranges::transform(all, std::back_inserter(parts), &OpenData::dataset);
    return {.dataset = std::make_shared<ConcatDataset>(parts), .names = all.front().names, .parts = parts};
}

// A copy of pixels as rows without padding.
Buffer packed(ConstImageView pixels) {
    const std::size_t row = pixels.row_bytes();
    Buffer copy(row * static_cast<std::size_t>(pixels.height));
    copy_pixels(pixels, {reinterpret_cast<std::uint8_t*>(copy.data()), pixels.height, pixels.width, pixels.channels,
                         static_cast<std::ptrdiff_t>(row)});
    return copy;
}

// One value of a sample, ready for Python: pixels (H, W, C), a mask (H, W), an array's elements, or bytes.
struct Value {
    Buffer memory;
    DType dtype = DType::uint8;
    Shape shape = {};
};

Value pixels_of(ConstImageView pixels, bool mask) {
    Shape shape{pixels.height, pixels.width};
    if (!mask) {
        shape.push_back(pixels.channels);
    }
    return {.memory = packed(pixels), .shape = std::move(shape)};
}

// Stored pixels that are not bytes, in their own type.
Value deep_pixels_of(const FieldValue& value) {
    const DType dtype = value.dtype.value_or(DType::uint8);
    const auto height = static_cast<std::size_t>(value.height);
    const auto width = static_cast<std::size_t>(value.width);
    const auto channels = static_cast<std::size_t>(value.channels);
    const std::size_t size = item_size(dtype);
    if (value.bytes.size() != height * width * channels * size) {
        throw DataError({}, {.where = "raw pixels",
                             .expected = fmt::format("{} bytes", height * width * channels * size),
                             .got = fmt::to_string(value.bytes.size())});
    }
    Value result{
        .memory = Buffer(value.bytes.size()), .dtype = dtype, .shape = {value.height, value.width, value.channels}};
    if (!value.planes) {
        std::ranges::copy(value.bytes, result.memory.data());
        return result;
    }
    std::byte* to = result.memory.data();
    for (std::size_t pixel = 0; pixel < height * width; ++pixel) {
        for (std::size_t c = 0; c < channels; ++c, to += size) {
            std::copy_n(value.bytes.data() + (c * height * width + pixel) * size, size, to);
        }
    }
    return result;
}

// The planes after ops: float32 (H, W, C), in the image's own range of values.
Value planes_of(ConstPlanesView planes) {
    Value result{.memory = Buffer(static_cast<std::size_t>(planes.channels) * static_cast<std::size_t>(planes.height) *
                                  static_cast<std::size_t>(planes.width) * sizeof(float)),
                 .dtype = DType::float32,
                 .shape = {planes.height, planes.width, planes.channels}};
    auto* to = reinterpret_cast<float*>(result.memory.data());
    for (int y = 0; y < planes.height; ++y) {
        for (int x = 0; x < planes.width; ++x) {
            for (int c = 0; c < planes.channels; ++c) {
                *to++ = planes.plane(c).row(y)[x];
            }
        }
    }
    return result;
}

// The image after the ops of `transform`: bytes, or an array that is not of bytes in its stored type; floats after ops.
Value image_of(const Transform& transform, const FieldValue& stored, const RngKey& key, TransformScratch& scratch,
               StageClock& clock) {
    const FieldValue& value = transform.with_array(stored, scratch);
    if (!transform.needs_planes() && !value.is_deep()) {
        const ConstImageView prepared = transform.prepare(value, scratch, clock);
        const ImageSize input = scratch.input;
        Value result = pixels_of(transform.augment(prepared, key, scratch), false);
        scratch.input = input;
        return result;
    }
    scratch.input = {value.height, value.width};
    return transform.ops().empty() && value.is_deep() ? deep_pixels_of(value)
                                                      : planes_of(transform.planes(value, key, scratch, clock));
}

// What `make` gives for the image, or for the frames of a clip one behind the other, with one more side in front.
Value stacked(const FieldValue& value, const std::function<Value(const FieldValue& image)>& make) {
    if (value.frames.empty()) {
        return make(value);
    }
    Value all;
    std::size_t end = 0;
    for (const FieldValue& frame : value.frames) {
        const Value one = make(frame);
        Shape shape = one.shape;
        shape.insert(shape.begin(), std::ssize(value.frames));
        if (end == 0) {
            all = {.memory = Buffer(one.memory.size() * value.frames.size()), .dtype = one.dtype, .shape = shape};
        } else if (shape != all.shape || one.dtype != all.dtype) {
            throw DataError({}, {.where = "clip", .expected = "frames of one size and type", .got = "several"});
        }
        end = static_cast<std::size_t>(std::ranges::copy(one.memory.bytes(), all.memory.data() + end).out -
                                       all.memory.data());
    }
    return all;
}

Value elements_of(const Field& field, const FieldValue& value) {
    Value result{.memory = Buffer(value.bytes.size()), .dtype = field.dtype, .shape = field.shape};
    std::ranges::copy(value.bytes, result.memory.data());
    if (field.any_length()) {
        result.shape.front() = static_cast<std::int64_t>(value.bytes.size() / field.item_bytes());
    }
    return result;
}

struct ReadSample {
    std::int64_t label = -1;
    std::vector<Value> values;  // the image, if there is one, then the fields
};

// The ops of `transform` run on the image alone, and without a final normalize.
ReadSample read(const Dataset& dataset, std::int64_t index, const Transform& transform = {}, const RngKey& key = {}) {
    Sample sample;
    Buffer pixels;  // of a video or a sound
    TransformScratch scratch;
    const Transform plain;
    StageTimes times;
    StageClock clock(times);
    ReadSample result;
    const auto read = [&] {
        dataset.read(index, sample);
        const int rate = transform.options().sample_rate;
        if (sample.encoded && (is_sound(sample.bytes) || (rate > 0 && is_video(sample.bytes)))) {
            decode_wanted(sample, {.sample_rate = rate}, pixels);
        } else if (sample.encoded && is_video(sample.bytes)) {
            decode_wanted(sample, {.count = VideoFile(sample.bytes).info().frames}, pixels);
        }
        result.label = sample.label;
        ImageSize size{};
        if (dataset.has_image()) {
            result.values.push_back(stacked(
                sample, [&](const FieldValue& image) { return image_of(transform, image, key, scratch, clock); }));
            size = scratch.input;
        }
        for (std::size_t i = 0; i < dataset.fields().size(); ++i) {
            const Field& field = dataset.fields()[i];
            const FieldValue& value = sample.field(i);
            if (field.kind == FieldKind::image) {
                result.values.push_back(stacked(
                    value, [&](const FieldValue& image) { return image_of(plain, image, {}, scratch, clock); }));
            } else if (field.kind == FieldKind::mask) {
                result.values.push_back(stacked(value, [&](const FieldValue& mask) {
                    return pixels_of(plain.mask(mask, size, OpRange::all, {}, scratch, clock), true);
                }));
            } else {
                result.values.push_back(elements_of(field, value));
            }
        }
    };
    with_checked_maps(
        [&] { with_place({.path = dataset.path(), .key = key_or_index(dataset, index), .index = index}, read); });
    return result;
}

nb::object as_python(Value value, FieldKind kind) {
    if (kind == FieldKind::bytes) {
        return nb::bytes(value.memory.data(), value.memory.size());
    }
    return as_array(std::move(value.memory), value.dtype, value.shape);
}

// {"image": (H, W, C), of a clip (T, H, W, C), "label": int, "index": int, "key": str, and each field}
nb::dict as_dict(const Dataset& dataset, std::int64_t index, ReadSample sample) {
    const std::string key = dataset.key(index);
    nb::dict result;
    std::size_t at = 0;
    if (dataset.has_image()) {
        result["image"] = as_python(std::move(sample.values[at++]), FieldKind::image);
    }
    result["label"] = sample.label;
    result["index"] = index;
    result["key"] = text(key);
    for (const Field& field : dataset.fields()) {
        result[field.name.c_str()] = as_python(std::move(sample.values[at++]), field.kind);
    }
    return result;
}

// A thread for each sample would cost a local one more than its decoding.
nb::dict sample_dict(const OpenData& data, std::int64_t index) {
    ReadSample sample;
    if (is_remote(data.dataset->path())) {
        sample = interruptible([dataset = data.dataset, index] { return read(*dataset, index); });
    } else {
        const nb::gil_scoped_release release;
        sample = read(*data.dataset, index);
    }
    return as_dict(*data.dataset, index, std::move(sample));
}

// Reads single samples with ops on their images, as a loader does, for what Python does with them afterwards.
class SampleReader {
  public:
    SampleReader(const OpenData& data, const nb::dict& settings) : SampleReader(data, read_settings(settings).data) {}

    // With the random numbers of the sample `drawn`, which `index` may replace.
    nb::dict read_with(std::int64_t index, std::uint64_t seed, std::int64_t epoch, std::int64_t drawn,
                       int occurrence) const {
        const RngKey key{.seed = seed,
                         .epoch = static_cast<std::uint32_t>(epoch),
                         .sample = static_cast<std::uint64_t>(drawn),
                         .occurrence = static_cast<std::uint16_t>(occurrence)};
        ReadSample sample;
        {
            const nb::gil_scoped_release release;
            sample = read(*dataset_, index, transform_, key);
        }
        return as_dict(*dataset_, index, std::move(sample));
    }

  private:
    SampleReader(const OpenData& data, const DataRecipe& recipe)
        : dataset_(data.dataset), transform_(recipe.train_ops, transform_options(recipe)) {}

    std::shared_ptr<const Dataset> dataset_;
    Transform transform_;
};

nb::list fields_of(std::span<const Field> fields) {
    nb::list list;
    for (const Field& field : fields) {
        list.append(nb::make_tuple(field.name, std::string(field_kind_name(field.kind)),
                                   std::string(dtype_name(field.dtype)), nb::tuple(nb::cast(field.shape))));
    }
    return list;
}

nb::list classes_of(const Dataset& dataset) {
    nb::list names;
    for (const std::string& name : dataset.classes()) {
        names.append(text(name));
    }
    return names;
}

using Hashes = std::pair<double, double>;

// A subset refers to the data set below it, so that subsets of subsets do not become a chain. `hashes`: none: those of
// the data set.
OpenData subset(const OpenData& data, std::vector<std::int64_t> indices, std::optional<Hashes> hashes) {
    const auto* inner = dynamic_cast<const Subset*>(data.dataset.get());
    if (inner != nullptr) {
        std::ranges::transform(indices, indices.begin(),
                               [&](std::int64_t i) { return inner->indices().at(static_cast<std::size_t>(i)); });
    }
    const HashRange range = hashes             ? HashRange{hashes->first, hashes->second}
                            : inner != nullptr ? inner->hashes()
                                               : HashRange();
    return {.dataset =
                std::make_shared<Subset>(inner == nullptr ? data.dataset : inner->dataset(), std::move(indices), range),
            .names = data.names};
}

// In the data set that was opened; empty: all of it.
std::optional<std::vector<std::int64_t>> indices_of(const OpenData& data) {
    const auto* subset = dynamic_cast<const Subset*>(data.dataset.get());
    return subset == nullptr ? std::nullopt : std::optional(subset->indices());
}

std::optional<Hashes> hashes_of(const OpenData& data) {
    const auto* subset = dynamic_cast<const Subset*>(data.dataset.get());
    return subset == nullptr ? std::nullopt : std::optional(Hashes(subset->hashes().begin, subset->hashes().end));
}

std::pair<OpenData, OpenData> split(const OpenData& data, double share) {
    const SplitDatasets parts = split_by_key(data.dataset, share);
    const auto made = [&](const Subset& part) {
        return subset(data, part.indices(), Hashes(part.hashes().begin, part.hashes().end));
    };
    return {made(*parts.rest), made(*parts.share)};
}

// What may read the data, so that other threads of Python go on.
template <typename Call>
auto unlocked(const Call& call) {
    const nb::gil_scoped_release release;
    return call();
}

// A function of the module that Ctrl-C ends.
template <typename Result, typename... Arguments>
auto ended_by_ctrl_c(Result (*function)(const Arguments&...)) {
    return [function](const Arguments&... arguments) { return interruptible([=] { return function(arguments...); }); };
}

}  // namespace

void bind_formats(nb::module_& module) {
    module.def("open", ended_by_ctrl_c(&open), nb::arg("path"), nb::arg("split"), nb::arg("image"), nb::arg("label"),
               nb::arg("fields"), nb::arg("context"), nb::arg("clips"));
    module.def("open_stream", &open_stream, nb::arg("stream"), nb::arg("folder"), nb::arg("image"), nb::arg("label"),
               nb::arg("fields"), nb::arg("clips"));
    module.def("open_table", ended_by_ctrl_c(&open_table), nb::arg("folder"), nb::arg("csv"), nb::arg("image"),
               nb::arg("label"), nb::arg("fields"));
    module.def("concat", &concat, nb::arg("all"));
    nb::class_<SampleReader>(module, "SampleReader")
        .def(nb::init<const OpenData&, const nb::dict&>(), nb::arg("data"), nb::arg("settings"))
        .def("read", &SampleReader::read_with, nb::arg("index"), nb::arg("seed"), nb::arg("epoch"), nb::arg("drawn"),
             nb::arg("occurrence"));
    nb::class_<OpenData>(module, "Dataset")
        .def("size", [](const OpenData& data) { return data.dataset->size(); })
        .def("sample", &sample_dict, nb::arg("index"))
        .def("key", [](const OpenData& data,
                       std::int64_t index) { return text(unlocked([&] { return data.dataset->key(index); })); })
        .def(
            "label", [](const OpenData& data, std::int64_t index) { return data.dataset->label(index); },
            nb::call_guard<nb::gil_scoped_release>())
        .def("has_image", [](const OpenData& data) { return data.dataset->has_image(); })
        .def("classes", [](const OpenData& data) { return classes_of(*data.dataset); })
        .def("fields", [](const OpenData& data) { return fields_of(data.dataset->fields()); })
        .def("stored_fields",
             [](const OpenData& data) { return fields_of(unlocked([&] { return data.dataset->stored_fields(); })); })
        .def("format", [](const OpenData& data) { return std::string(data.dataset->format()); })
        .def("path", [](const OpenData& data) { return text(data.dataset->path()); })
        .def("advice",
             [](const OpenData& data) {
                 return text(unlocked([&] { return dataset_advice(*data.dataset, nullptr, data.names.clips); }));
             })
        .def("bytes", [](const OpenData& data) { return data.dataset->bytes(); })
        .def("subset", &subset, nb::arg("indices"), nb::arg("hashes") = nb::none())
        .def("indices", &indices_of)
        .def("hashes", &hashes_of)
        .def("split", [](const OpenData& data, double share) {
            auto parts = interruptible([data, share] { return split(data, share); });
            return nb::make_tuple(std::move(parts.first), std::move(parts.second));
        });
}

}  // namespace stoker::python

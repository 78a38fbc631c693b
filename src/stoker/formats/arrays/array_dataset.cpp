// Chooses the fields by name before any is read, so that only the used members of a compressed file are inflated.
#include "stoker/formats/arrays/array_dataset.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/formats/array.h"
#include "stoker/formats/class_names.h"
#include "stoker/formats/fields.h"

namespace stoker {
namespace {

constexpr const char* kClasses = "classes";
constexpr const char* kKeys = "keys";

// The fields that may hold images or labels.
std::vector<std::string> candidates(const std::vector<std::string>& names) {
    std::vector<std::string> rest;
    std::ranges::copy_if(names, std::back_inserter(rest),
                         [](const std::string& name) { return name != kClasses && name != kKeys; });
    return rest;
}

[[noreturn]] void refuse(const std::string& where, std::string expected, std::string got, std::string hint = "") {
    throw DataError({.path = {}, .key = where},
                    {.where = where, .expected = std::move(expected), .got = std::move(got), .hint = std::move(hint)});
}

}  // namespace

ArrayDataset::ArrayDataset(const std::string& path, Split split, const FieldNames& fields) : path_(path) {
    const std::vector<std::string> names = array_names(path);
    const FoundFields found = find_fields(candidates(names), fields, split, path);
    found_ = found;
    std::vector<std::string> wanted = {found.image, kClasses, kKeys};
    if (found.label) {
        wanted.push_back(*found.label);
    }
    std::ranges::transform(fields.more, std::back_inserter(wanted),
                           [&](const FieldRequest& request) { return present_name(request, names); });
    file_ = open_arrays(path, wanted);
    const bool splits = fields_have_splits(names);
    if (splits) {
        prefix_ = fmt::format("{}/", split_name(split));
    }
    with_place({.path = path}, [&] {
        load_images(found.image, fields.clips);
        if (found.label) {
            load_labels(*found.label);
        }
        std::ranges::for_each(fields.more,
                              [&](const FieldRequest& request) { load_field(request, present_name(request, names)); });
        load_classes_and_keys(splits);
    });
}

void ArrayDataset::load_images(const std::string& name, bool clips) {
    const ArrayView* found = file_.find(name);
    if (found == nullptr) {
        refuse(name, "images", "text");
    }
    images_ = *found;
    const std::string shape = fmt::format("({})", fmt::join(images_.shape, ", "));
    const std::size_t sides = images_.shape.size();
    if (sides < 3 || sides > 5 || images_.shape[0] < 1) {
        refuse(name, "at least one clip, (N, T, ...), or image, (N, H, W), (N, H, W, C) or (N, C, H, W)", shape,
               sides == 2 ? "reshape the rows to (N, H, W)" : "");
    }
    layout_ = image_array(images_.type, Shape(images_.shape.begin() + 1, images_.shape.end()), clips);
    sample_bytes_ = images_.bytes.size() / static_cast<std::size_t>(size());
    map_or_read_ = MapOrRead(images_.bytes.size());
}

void ArrayDataset::load_labels(const std::string& name) {
    const ArrayView* found = file_.find(name);
    if (found == nullptr) {
        refuse(name, "labels as numbers", "text");
    }
    labels_ = array_labels(*found, size());
    classes_ = numbered_classes_of(labels_);
}

void ArrayDataset::load_field(const FieldRequest& request, const std::string& name) {
    const ArrayView* found = file_.find(name);
    if (found == nullptr) {
        refuse(name, "an array of this name", file_.texts.contains(name) ? "text" : "none");
    }
    const std::string shape = fmt::format("({})", fmt::join(found->shape, ", "));
    if (found->shape.empty() || found->shape[0] != size()) {
        refuse(name, fmt::format("({}, ...), one row for each image", size()), shape);
    }
    const std::optional<DType> dtype = dtype_of_array(found->type);
    if (!dtype || found->fortran) {
        throw Unsupported({.where = fmt::format("{}:{}", path_, name),
                           .expected = "uint8, int16 to int64, uint16 or a float, in C order",
                           .got = fmt::format("{} of {}{}", array_type_name(found->type), shape,
                                              found->fortran ? " in Fortran order" : "")});
    }
    const Shape item(found->shape.begin() + 1, found->shape.end());
    fields_.push_back(array_field(request, *dtype, item, fmt::format("{}:{}", path_, name)));
    columns_.push_back(*found);
}

void ArrayDataset::load_classes_and_keys(bool splits) {
    if (const auto classes = file_.texts.find(kClasses); classes != file_.texts.end()) {
        classes_ = classes->second;
        const std::int64_t largest = labels_.empty() ? -1 : *std::ranges::max_element(labels_);
        if (largest >= static_cast<std::int64_t>(classes_.size())) {
            refuse(kClasses, fmt::format("names of all classes, 0 to {}", largest), fmt::format("{}", classes_.size()));
        }
    }
    if (const auto keys = file_.texts.find(kKeys); keys != file_.texts.end() && !splits) {
        keys_ = keys->second;
        if (keys_.size() != static_cast<std::size_t>(size())) {
            refuse(kKeys, fmt::format("{} keys, one for each image", size()), fmt::format("{}", keys_.size()));
        }
        check_unique(keys_, kKeys);
    }
}

std::optional<std::int64_t> ArrayDataset::label(std::int64_t index) const {
    check_index(index);
    return labels_.empty() ? -1 : labels_[static_cast<std::size_t>(index)];
}

std::string ArrayDataset::key(std::int64_t index) const {
    check_index(index);
    return keys_.empty() ? fmt::format("{}{}", prefix_, index) : keys_[static_cast<std::size_t>(index)];
}

void ArrayDataset::read(std::int64_t index, Sample& sample) const {
    sample.label = *label(index);
    const auto at = static_cast<std::size_t>(index);
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        const ArrayView& column = columns_[i];
        const std::size_t bytes = column.bytes.size() / static_cast<std::size_t>(size());
        const std::span<const std::byte> item = column.bytes.subspan(at * bytes, bytes);
        if (has_pixels(fields_[i].kind)) {
            const Shape shape(column.shape.begin() + 1, column.shape.end());
            set_pixels(image_array(fields_[i].kind, column.type, shape), false, item, sample.field(i));
        } else {
            sample.field(i).set_elements(item);
        }
    }
    if (images_.fortran) {
        // Element k of the sample, in Fortran order, is element index + N * k of the array.
        const auto count = static_cast<std::size_t>(size());
        sample.storage.resize(sample_bytes_);
        const auto size = static_cast<std::size_t>(images_.type.item_size);
        for (std::size_t k = 0; k < sample_bytes_ / size; ++k) {
            std::copy_n(images_.bytes.data() + (at + count * k) * size, size, sample.storage.data() + k * size);
        }
        set_pixels(layout_, true, sample.storage.bytes(), sample);
        return;
    }
    ImageArray image = layout_;
    image.frames = 0;
    const auto frames = static_cast<std::size_t>(std::max<std::int64_t>(layout_.frames, 1));
    const std::size_t size = sample_bytes_ / frames;
    const auto set = [&](std::size_t frame, FieldValue& value) {
        const std::size_t begin = at * sample_bytes_ + frame * size;
        std::span<const std::byte> bytes = images_.bytes.subspan(begin, size);
        if (images_.file != nullptr) {
            bytes = map_or_read_.get(bytes, *images_.file, images_.offset + begin, value.storage);
        }
        set_pixels(image, false, bytes, value);
    };
    if (layout_.frames == 0) {
        set(0, sample);
        return;
    }
    for (const std::int64_t frame : sample.begin_clip(layout_.frames)) {
        set(static_cast<std::size_t>(frame), sample.frames.emplace_back());
    }
}

void ArrayDataset::prefetch(std::span<const std::int64_t> indices) const {
    if (images_.fortran || (images_.file == nullptr && sample_bytes_ >= kReadBytes)) {
        return;
    }
    std::size_t ahead = 0;
    for (const std::int64_t index : indices) {
        check_index(index);
        const std::size_t begin = static_cast<std::size_t>(index) * sample_bytes_;
        prefetch_bytes(images_.bytes.subspan(begin, sample_bytes_), ahead++,
                       [&] { images_.file->will_need(images_.offset + begin, sample_bytes_); });
    }
}

bool arrays_have_splits(const std::string& path) {
    return fields_have_splits(array_names(path));
}

}  // namespace stoker

// Numbers are written as the doubles that their floats are, so that the same floats are read.
#include "stoker/pack/unpack_coco.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/base/json_depth.h"
#include "stoker/base/utf8.h"
#include "stoker/formats/class_names.h"

namespace stoker {
namespace {

[[noreturn]] void refuse(std::string expected, std::string got) {
    throw DataError({}, {.where = "unpack", .expected = std::move(expected), .got = std::move(got)});
}

template <typename Number>
std::vector<Number> numbers_of(const FieldValue& value) {
    std::vector<Number> numbers(value.bytes.size() / sizeof(Number));
    const auto out = std::as_writable_bytes(std::span(numbers));
    std::copy_n(value.bytes.begin(), out.size(), out.begin());
    return numbers;
}

// The float that is added to `from` to give `to`, as a reader adds it. Rounding may take a neighbour.
float extent(float from, float to) {
    constexpr float kMost = std::numeric_limits<float>::infinity();
    const float difference = to - from;
    for (const float size : {difference, std::nextafter(difference, -kMost), std::nextafter(difference, kMost)}) {
        if (size >= 0 && from + size == to && std::isfinite(size)) {
            return size;
        }
    }
    refuse("boxes that are sums of a corner and a size", fmt::format("{} to {}", from, to));
}

// Appends an element of an array.
void append(std::string& elements, const std::string& element) {
    elements += elements.empty() ? "" : ",\n";
    elements += element;
}

std::string quoted(const std::string& text) {
    if (!is_utf8(text)) {
        refuse("names in UTF-8", "other bytes");
    }
    return json_text(nlohmann::json(text));
}

}  // namespace

std::optional<UnpackCoco> UnpackCoco::of(const Dataset& dataset) {
    UnpackCoco coco;
    coco.classes_.assign(dataset.classes().begin(), dataset.classes().end());
    const std::span<const Field> fields = dataset.fields();
    for (std::size_t i = 0; i < fields.size(); ++i) {
        const Field& field = fields[i];
        const bool labels = field.kind == FieldKind::label && field.dtype == DType::int64;
        const bool crowds = field.name == "iscrowd" && field.dtype == DType::uint8;
        const bool listed = field.shape.size() == 1 && (labels || crowds);
        std::optional<std::size_t>& place = field.kind == FieldKind::boxes ? coco.boxes_
                                            : labels                       ? coco.labels_
                                                                           : coco.crowds_;
        if ((field.kind != FieldKind::boxes && !listed) || place) {
            return std::nullopt;
        }
        place = i;
    }
    return coco.boxes_ ? std::optional(std::move(coco)) : std::nullopt;
}

UnpackCoco::Annotations UnpackCoco::annotations(const Sample& sample, std::int64_t index) const {
    if (sample.label >= 0) {
        refuse("samples without a class other than those of their boxes", fmt::format("class {}", sample.label));
    }
    const std::vector<float> boxes = numbers_of<float>(sample.fields.at(*boxes_));
    const std::size_t count = boxes.size() / 4;
    const auto labels =
        labels_ ? numbers_of<std::int64_t>(sample.fields.at(*labels_)) : std::vector<std::int64_t>(count);
    const auto crowds =
        crowds_ ? numbers_of<std::uint8_t>(sample.fields.at(*crowds_)) : std::vector<std::uint8_t>(count);
    if (labels.size() != count || crowds.size() != count) {
        refuse(fmt::format("a class for each of {} boxes", count),
               fmt::format("{}", std::min(labels.size(), crowds.size())));
    }
    Annotations all;
    for (std::size_t i = 0; i < count; ++i) {
        const float* const box = boxes.data() + 4 * i;
        if (labels[i] < 0 || labels[i] >= kMaxNumberedClasses || crowds[i] > 1) {
            refuse(fmt::format("classes of boxes from 0 to {}, and 0 or 1 for iscrowd", kMaxNumberedClasses - 1),
                   fmt::format("{} and {}", labels[i], crowds[i]));
        }
        const double width = extent(box[0], box[2]);
        const double height = extent(box[1], box[3]);
        all.largest_class = std::max(all.largest_class, labels[i]);
        all.texts.push_back(
            fmt::format(R"("image_id": {}, "category_id": {}, "bbox": [{}, {}, {}, {}], "area": {}, "iscrowd": {}}})",
                        index + 1, labels[i] + 1, static_cast<double>(box[0]), static_cast<double>(box[1]), width,
                        height, width * height, crowds[i]));
    }
    return all;
}

void UnpackCoco::add(const std::string& file, std::int64_t height, std::int64_t width, const Annotations& annotations) {
    append(images_, fmt::format(R"({{"id": {}, "file_name": {}, "height": {}, "width": {}}})", ++samples_, quoted(file),
                                height, width));
    largest_class_ = std::max(largest_class_, annotations.largest_class);
    for (const std::string& annotation : annotations.texts) {
        append(annotations_, fmt::format(R"({{"id": {}, {})", ++boxes_added_, annotation));
    }
}

std::string UnpackCoco::json() const {
    std::string categories;
    const std::size_t count = std::max(classes_.size(), static_cast<std::size_t>(largest_class_) + 1);
    for (std::size_t i = 0; i < count; ++i) {
        const std::string name = i >= classes_.size() || classes_[i].empty() ? fmt::to_string(i) : classes_[i];
        append(categories, fmt::format(R"({{"id": {}, "name": {}}})", i + 1, quoted(name)));
    }
    return fmt::format("{{\"images\": [\n{}],\n\"annotations\": [\n{}],\n\"categories\": [\n{}]}}\n", images_,
                       annotations_, categories);
}

}  // namespace stoker

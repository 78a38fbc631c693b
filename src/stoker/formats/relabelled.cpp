#include "stoker/formats/relabelled.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <numeric>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"
#include "stoker/base/printable.h"

namespace stoker {
namespace {

// "\"ash\", \"beech\""; the first of many.
std::string quoted(std::span<const std::string> names) {
    constexpr std::size_t kListed = 5;
    std::string text;
    for (const std::string& name : names.first(std::min(names.size(), kListed))) {
        text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", name);
    }
    return names.size() > kListed ? text + ", ..." : text;
}

// Without `labels` the data have no names, and the label stays.
std::int64_t mapped(std::int64_t label, const std::vector<std::int64_t>& labels, const std::string& name) {
    if (labels.empty()) {
        return label;
    }
    if (label >= std::ssize(labels)) {
        throw DataError({}, {.where = name,
                             .expected = fmt::format("a class from 0 to {}", labels.size() - 1),
                             .got = fmt::to_string(label)});
    }
    return label < 0 ? label : labels[static_cast<std::size_t>(label)];
}

}  // namespace

Relabelled::Relabelled(std::shared_ptr<const Dataset> dataset, std::vector<std::string> classes,
                       std::vector<std::int64_t> labels, std::vector<FieldLabels> fields)
    : dataset_(std::move(dataset)),
      classes_(std::move(classes)),
      labels_(std::move(labels)),
      maps_(std::move(fields)),
      fields_(dataset_->fields().begin(), dataset_->fields().end()) {
    for (const FieldLabels& map : maps_) {
        fields_[map.field].classes = map.classes;
    }
}

void Relabelled::read(std::int64_t index, Sample& sample) const {
    dataset_->read(index, sample);
    sample.label = mapped(sample.label, labels_, "label");
    for (const FieldLabels& map : maps_) {
        FieldValue& value = sample.field(map.field);
        std::vector<std::int64_t> numbers(value.bytes.size() / sizeof(std::int64_t));
        std::memcpy(numbers.data(), value.bytes.data(), numbers.size() * sizeof(std::int64_t));
        for (std::int64_t& number : numbers) {
            number = mapped(number, map.labels, fields_[map.field].name);
        }
        value.copy_elements(numbers);
    }
}

std::string Relabelled::advice() const {
    std::vector<std::string> absent;
    for (std::int64_t label = 0; label < std::ssize(classes_); ++label) {
        if (std::ranges::find(labels_, label) == labels_.end()) {
            absent.push_back(classes_[static_cast<std::size_t>(label)]);
        }
    }
    std::string given = dataset_->advice();
    if (absent.empty()) {
        return given;
    }
    return fmt::format("no samples of {}: {}{}",
                       absent.size() == 1 ? "one class" : pluralize(std::ssize(absent), "class"), quoted(absent),
                       given.empty() ? "" : "; " + given);
}

std::optional<std::int64_t> Relabelled::label(std::int64_t index) const {
    const std::optional<std::int64_t> label = dataset_->label(index);
    if (labels_.empty()) {
        return label;
    }
    if (!label || *label >= std::ssize(labels_)) {
        return label ? std::optional(std::ssize(classes_)) : std::nullopt;  // out of range here as well
    }
    return *label < 0 ? -1 : labels_[static_cast<std::size_t>(*label)];
}

namespace {

// The index in `classes` of each name of `own`. Throws InvalidArgument for one that is not there.
std::vector<std::int64_t> places_in(std::span<const std::string> classes, const std::string& origin,
                                    std::span<const std::string> own, const std::string& path) {
    std::vector<std::int64_t> labels;
    if (own.size() <= classes.size() && std::equal(own.begin(), own.end(), classes.begin())) {
        labels.resize(own.size());
        std::iota(labels.begin(), labels.end(), 0);
        return labels;
    }
    std::map<std::string, std::int64_t> index;  // checkpoints keep names as valid UTF-8
    for (const std::string& name : classes) {
        if (!index.emplace(utf8_text(name), std::ssize(index)).second) {
            throw InvalidArgument({.where = origin,
                                   .expected = fmt::format("each class name once, to match those of {}", path),
                                   .got = fmt::format("\"{}\" twice", name)});
        }
    }
    std::vector<std::string> unknown;
    for (const std::string& name : own) {
        const auto found = index.find(utf8_text(name));
        found == index.end() ? unknown.push_back(name) : labels.push_back(found->second);
    }
    if (!unknown.empty()) {
        throw InvalidArgument({.where = path,
                               .expected = classes.empty() ? fmt::format("data without class names, as in {}", origin)
                                                           : fmt::format("no other classes than the {} of {}: {}",
                                                                         classes.size(), origin, quoted(classes)),
                               .got = fmt::format("{}: {}", pluralize(std::ssize(unknown), "other"), quoted(unknown))});
    }
    return labels;
}

// The names that a field's numbers are to have: those of the field in the training data, or else the classes if they
// are the data set's own; null if none are known.
const std::vector<std::string>* wanted_names(const Field& field, std::span<const std::string> own,
                                             const std::vector<std::string>& classes, std::span<const Field> fields) {
    if (field.classes.empty()) {
        return nullptr;
    }
    const auto found = std::ranges::find(fields, field.name, &Field::name);
    if (found != fields.end() && !found->classes.empty()) {
        return &found->classes;
    }
    return std::ranges::equal(field.classes, own) ? &classes : nullptr;
}

// Numbers of boxes that were packed have no names, but are those of the data set's classes.
void require_named_boxes(const Dataset& dataset, const std::string& origin) {
    const auto is = [&](FieldKind kind) {
        return std::ranges::any_of(dataset.fields(), [kind](const Field& field) {
            return field.kind == kind && field.any_length() && field.classes.empty();
        });
    };
    if (is(FieldKind::boxes) && is(FieldKind::label)) {
        throw InvalidArgument({.where = dataset.path(),
                               .expected = fmt::format("the classes of {} in the same order", origin),
                               .got = fmt::format("others: {}", quoted(dataset.classes())),
                               .hint = "the labels of its boxes are indices of its classes: pack it from an "
                                       "annotation file with the same categories"});
    }
}

}  // namespace

std::shared_ptr<const Dataset> match_classes(std::span<const std::string> given_classes, const std::string& origin,
                                             std::shared_ptr<const Dataset> dataset, std::span<const Field> fields) {
    const std::vector<std::string> classes(given_classes.begin(), given_classes.end());
    const std::span<const std::string> own = dataset->classes();
    const bool same = own.empty() || std::ranges::equal(own, classes);
    std::vector<FieldLabels> maps;
    for (std::size_t i = 0; i < dataset->fields().size(); ++i) {
        const Field& field = dataset->fields()[i];
        const std::vector<std::string>* names = wanted_names(field, own, classes, fields);
        if (names != nullptr && *names != field.classes) {
            maps.push_back({.field = i,
                            .classes = *names,
                            .labels = places_in(*names, origin, field.classes,
                                                fmt::format("{}: field {}", dataset->path(), field.name))});
        }
    }
    if (same && maps.empty()) {
        return dataset;
    }
    if (same) {
        std::vector<std::string> kept(own.begin(), own.end());
        std::vector<std::int64_t> labels = places_in(kept, origin, own, dataset->path());
        return std::make_shared<Relabelled>(std::move(dataset), std::move(kept), std::move(labels), std::move(maps));
    }
    std::vector<std::int64_t> labels = places_in(classes, origin, own, dataset->path());
    if (!std::ranges::is_sorted(labels) || (!labels.empty() && labels.back() + 1 != std::ssize(labels))) {
        require_named_boxes(*dataset, origin);
    }
    return std::make_shared<Relabelled>(std::move(dataset), classes, std::move(labels), std::move(maps));
}

}  // namespace stoker

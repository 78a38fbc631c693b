#include "stoker/formats/relabelled.h"

#include <algorithm>
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

}  // namespace

Relabelled::Relabelled(std::shared_ptr<const Dataset> dataset, std::vector<std::string> classes,
                       std::vector<std::int64_t> labels)
    : dataset_(std::move(dataset)), classes_(std::move(classes)), labels_(std::move(labels)) {}

void Relabelled::read(std::int64_t index, Sample& sample) const {
    dataset_->read(index, sample);
    if (sample.label >= std::ssize(labels_)) {
        throw DataError({}, {.where = "label",
                             .expected = fmt::format("a class from 0 to {}", labels_.size() - 1),
                             .got = fmt::to_string(sample.label)});
    }
    sample.label = sample.label < 0 ? -1 : labels_[static_cast<std::size_t>(sample.label)];
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
    if (!label || *label >= std::ssize(labels_)) {
        return label ? std::optional(std::ssize(classes_)) : std::nullopt;  // out of range here, too
    }
    return *label < 0 ? -1 : labels_[static_cast<std::size_t>(*label)];
}

std::shared_ptr<const Dataset> match_classes(std::span<const std::string> classes, const std::string& origin,
                                             std::shared_ptr<const Dataset> dataset) {
    const std::span<const std::string> own = dataset->classes();
    if (own.empty() || std::ranges::equal(own, classes)) {
        return dataset;
    }
    std::vector<std::int64_t> labels;
    if (own.size() < classes.size() && std::equal(own.begin(), own.end(), classes.begin())) {
        labels.resize(own.size());
        std::iota(labels.begin(), labels.end(), 0);
        return std::make_shared<Relabelled>(
            std::move(dataset), std::vector<std::string>(classes.begin(), classes.end()), std::move(labels));
    }
    std::map<std::string, std::int64_t> index;  // checkpoints keep names as valid UTF-8
    for (const std::string& name : classes) {
        if (!index.emplace(utf8_text(name), std::ssize(index)).second) {
            throw InvalidArgument(
                {.where = origin,
                 .expected = fmt::format("each class name once, to match those of {}", dataset->path()),
                 .got = fmt::format("\"{}\" twice", name)});
        }
    }
    std::vector<std::string> unknown;
    for (const std::string& name : own) {
        const auto found = index.find(utf8_text(name));
        found == index.end() ? unknown.push_back(name) : labels.push_back(found->second);
    }
    if (!unknown.empty()) {
        throw InvalidArgument({.where = dataset->path(),
                               .expected = classes.empty() ? fmt::format("data without class names, as in {}", origin)
                                                           : fmt::format("no other classes than the {} of {}: {}",
                                                                         classes.size(), origin, quoted(classes)),
                               .got = fmt::format("{}: {}", pluralize(std::ssize(unknown), "other"), quoted(unknown))});
    }
    return std::make_shared<Relabelled>(std::move(dataset), std::vector<std::string>(classes.begin(), classes.end()),
                                        std::move(labels));
}

}  // namespace stoker

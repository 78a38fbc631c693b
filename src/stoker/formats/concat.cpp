// Maps an index to a dataset and an index within it, and forwards the call.
#include "stoker/formats/concat.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stoker/base/error.h"

namespace stoker {

namespace {

// Numbers that stand for names must stand for the same ones.
void require_field_classes(const Dataset& dataset, const Dataset& first) {
    for (std::size_t i = 0; i < dataset.fields().size(); ++i) {
        const Field& field = dataset.fields()[i];
        const std::vector<std::string>& names = first.fields()[i].classes;
        if (!names.empty() && !field.classes.empty() && field.classes != names) {  // packed data have numbers alone
            throw InvalidArgument({.where = fmt::format("{}: field {}", dataset.path(), field.name),
                                   .expected = fmt::format("the names of {}: {}", first.path(), fmt::join(names, ", ")),
                                   .got = fmt::format("{}", fmt::join(field.classes, ", ")),
                                   .hint = "write numbers instead of names, the same in all of them"});
        }
    }
}

}  // namespace

ConcatDataset::ConcatDataset(std::vector<std::shared_ptr<const Dataset>> datasets)
    : datasets_(std::move(datasets)), begins_{0} {
    if (datasets_.empty()) {
        throw InvalidArgument({.where = "data.mix", .expected = "at least one data set", .got = "none"});
    }
    for (const auto& dataset : datasets_) {
        if (!std::ranges::equal(dataset->classes(), classes())) {
            throw InvalidArgument({.where = dataset->path(),
                                   .expected = fmt::format("the classes of {}: {}", datasets_.front()->path(),
                                                           fmt::join(classes(), ", ")),
                                   .got = fmt::format("{}", fmt::join(dataset->classes(), ", ")),
                                   .hint = "only data sets of the same classes can be mixed"});
        }
        if (!std::ranges::equal(dataset->fields(), fields()) || dataset->has_image() != has_image()) {
            throw InvalidArgument(
                {.where = dataset->path(),
                 .expected = fmt::format("the fields of {}: {}", datasets_.front()->path(), describe_fields(fields())),
                 .got = describe_fields(dataset->fields())});
        }
        require_field_classes(*dataset, *datasets_.front());
        begins_.push_back(begins_.back() + dataset->size());
    }
}

ConcatDataset::Place ConcatDataset::place(std::int64_t index) const {
    check_index(index);
    const auto number = static_cast<std::size_t>(std::ranges::upper_bound(begins_, index) - begins_.begin() - 1);
    return {*datasets_[number], number, index - begins_[number]};
}

void ConcatDataset::read(std::int64_t index, Sample& sample) const {
    const Place at = place(index);
    at.dataset.read(at.index, sample);
}

std::string ConcatDataset::key(std::int64_t index) const {
    const Place at = place(index);
    return fmt::format("{}:{}", at.number, at.dataset.key(at.index));
}

void ConcatDataset::prefetch(std::span<const std::int64_t> indices) const {
    std::vector<std::vector<std::int64_t>> wanted(datasets_.size());
    for (const std::int64_t index : indices) {
        const Place at = place(index);
        wanted[at.number].push_back(at.index);
    }
    for (std::size_t i = 0; i < datasets_.size(); ++i) {
        if (!wanted[i].empty()) {
            datasets_[i]->prefetch(wanted[i]);
        }
    }
}

std::optional<std::int64_t> ConcatDataset::label(std::int64_t index) const {
    const Place at = place(index);
    return at.dataset.label(at.index);
}

std::optional<std::int64_t> ConcatDataset::entries(std::int64_t index, std::size_t field) const {
    const Place at = place(index);
    return at.dataset.entries(at.index, field);
}

// Empty unless every dataset has shards. Shards are read in stored order within a shuffle window, and in a dataset
// without shards, sorted by class, such a window would hold little but one class.
std::vector<std::int64_t> ConcatDataset::shard_sizes() const {
    std::vector<std::int64_t> all;
    for (const auto& dataset : datasets_) {
        const std::vector<std::int64_t> sizes = dataset->shard_sizes();
        if (sizes.empty()) {
            return {};
        }
        all.insert(all.end(), sizes.begin(), sizes.end());
    }
    return all;
}

std::string ConcatDataset::path() const {
    std::vector<std::string> paths;
    std::ranges::transform(datasets_, std::back_inserter(paths), [](const auto& dataset) { return dataset->path(); });
    return fmt::format("{}", fmt::join(paths, " + "));
}

std::string ConcatDataset::advice() const {
    std::vector<std::string> lines;
    for (const auto& dataset : datasets_) {
        if (const std::string advice = dataset->advice(); !advice.empty()) {
            lines.push_back(fmt::format("{}: {}", dataset->path(), advice));
        }
    }
    return fmt::format("{}", fmt::join(lines, "; "));
}

std::int64_t ConcatDataset::bytes() const {
    std::int64_t sum = 0;
    for (const auto& dataset : datasets_) {
        sum += dataset->bytes();
    }
    return sum;
}

}  // namespace stoker

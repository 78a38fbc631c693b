// A view of chosen samples of another data set, and the split of a data set into two such views.
#include "stoker/formats/subset.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"
#include "stoker/base/pluralize.h"

namespace stoker {
namespace {

// The key's hash as a fraction in [0, 1), the same on every machine and in every release.
double hash_fraction(const std::string& key) {
    return static_cast<double>(hash_text(key) >> 11) * 0x1p-53;
}

// Samples that cannot be read may all have the same key, such as the cells of a column without paths.
void require_readable(const Dataset& dataset) {
    Sample sample;
    try {
        dataset.read(0, sample);
    } catch (const DataError& error) {
        throw error.located({.path = dataset.path(), .key = key_or_index(dataset, 0), .index = 0});
    }
}

}  // namespace

Subset::Subset(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> indices, HashRange hashes)
    : dataset_(std::move(dataset)), indices_(std::move(indices)), hashes_(hashes) {
    for (const std::int64_t index : indices_) {
        if (index < 0 || index >= dataset_->size()) {
            throw InvalidArgument({.where = "Subset",
                                   .expected = fmt::format("indices below {}", dataset_->size()),
                                   .got = fmt::format("{}", index)});
        }
    }
}

void Subset::prefetch(std::span<const std::int64_t> indices) const {
    std::vector<std::int64_t> wanted(indices.size());
    std::ranges::transform(indices, wanted.begin(), [&](std::int64_t index) { return dataset_index(index); });
    dataset_->prefetch(wanted);
}

std::vector<std::int64_t> Subset::shard_sizes() const {
    std::vector<std::int64_t> sizes = dataset_->shard_sizes();
    if (sizes.empty() || !std::ranges::is_sorted(indices_)) {
        return {};
    }
    std::int64_t end = 0;
    auto begin = indices_.begin();
    for (std::int64_t& size : sizes) {
        end += size;
        const auto next = std::lower_bound(begin, indices_.end(), end);
        size = next - begin;
        begin = next;
    }
    std::erase(sizes, 0);
    return sizes;
}

std::int64_t Subset::bytes() const {
    const double fraction =
        dataset_->size() == 0 ? 0 : static_cast<double>(size()) / static_cast<double>(dataset_->size());
    return static_cast<std::int64_t>(static_cast<double>(dataset_->bytes()) * fraction);
}

std::int64_t Subset::dataset_index(std::int64_t index) const {
    check_index(index);
    return indices_[static_cast<std::size_t>(index)];
}

SplitDatasets split_by_key(std::shared_ptr<const Dataset> dataset, double share) {
    if (!(share > 0 && share < 1)) {
        throw InvalidArgument(
            {.where = "split_by_key", .expected = "a share between 0 and 1", .got = fmt::format("{}", share)});
    }
    const auto* subset = dynamic_cast<const Subset*>(dataset.get());
    const HashRange all = subset != nullptr ? subset->hashes() : HashRange();
    const double middle = all.begin + share * (all.end - all.begin);
    std::vector<std::int64_t> rest;
    std::vector<std::int64_t> chosen;
    for (std::int64_t index = 0; index < dataset->size(); ++index) {
        (hash_fraction(key_or_index(*dataset, index)) < middle ? chosen : rest).push_back(index);
    }
    if (rest.empty() || chosen.empty()) {
        if (dataset->size() > 0) {
            require_readable(*dataset);
        }
        throw InvalidArgument(
            {.where = dataset->path(),
             .expected = fmt::format("enough samples for a share of {:g} %", 100 * share),
             .got = fmt::format("{}, which leave one side empty", pluralize(dataset->size(), "sample")),
             .hint = "use another share, or add data"});
    }
    return {.rest = std::make_shared<Subset>(dataset, std::move(rest), HashRange{middle, all.end}),
            .share = std::make_shared<Subset>(dataset, std::move(chosen), HashRange{all.begin, middle})};
}

}  // namespace stoker

// A view of chosen samples of another data set, and the split of a data set into two such views.
#include "stoker/formats/subset.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
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

// The number of samples of a class that form the share. The fraction of a sample that is left over is the probability
// of one more, by the hash of the class's name, so that many small classes together have the share as well.
std::size_t share_of_class(const Dataset& dataset, std::int64_t label, std::size_t samples, double share) {
    const std::span<const std::string> names = dataset.classes();
    const double rounding =
        hash_fraction(label < std::ssize(names) ? names[static_cast<std::size_t>(label)] : std::to_string(label));
    return static_cast<std::size_t>(share * static_cast<double>(samples) + rounding);
}

// True for each sample of the share: those of a class with the smallest hashes, and those without a label whose hash
// is below `middle`.
std::vector<bool> chosen_by_hash(const Dataset& dataset, double share, double middle) {
    std::vector<bool> chosen(static_cast<std::size_t>(dataset.size()));
    std::map<std::int64_t, std::vector<std::pair<double, std::size_t>>> classes;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        const auto index = static_cast<std::int64_t>(i);
        const double hash = hash_fraction(key_or_index(dataset, index));
        if (const std::int64_t label = dataset.label(index).value_or(-1); label >= 0) {
            classes[label].emplace_back(hash, i);
        } else {
            chosen[i] = hash < middle;
        }
    }
    for (auto& [label, samples] : classes) {
        std::ranges::sort(samples);
        samples.resize(std::min(share_of_class(dataset, label, samples.size(), share), samples.size()));
        for (const auto& [hash, index] : samples) {
            chosen[index] = true;
        }
    }
    return chosen;
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
    const std::vector<bool> in_share = chosen_by_hash(*dataset, share, middle);
    std::vector<std::int64_t> rest;
    std::vector<std::int64_t> chosen;
    for (std::int64_t index = 0; index < dataset->size(); ++index) {
        (in_share[static_cast<std::size_t>(index)] ? chosen : rest).push_back(index);
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

// Finds the source of an index by its beginning; everything else is the source's own answer.
#include "stoker/formats/concat.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stoker/base/error.h"

namespace stoker {

Concat::Concat(std::vector<std::shared_ptr<const Source>> sources) : sources_(std::move(sources)), begins_{0} {
    if (sources_.empty()) {
        throw InvalidArgument({.where = "Concat", .expected = "at least one source", .got = "none"});
    }
    for (const auto& source : sources_) {
        if (!std::ranges::equal(source->classes(), classes())) {
            throw InvalidArgument(
                {.where = source->path(),
                 .expected = fmt::format("the classes of {}: {}", sources_.front()->path(), fmt::join(classes(), ", ")),
                 .got = fmt::format("{}", fmt::join(source->classes(), ", ")),
                 .hint = "only data sets of the same classes can be mixed"});
        }
        begins_.push_back(begins_.back() + source->size());
    }
}

Concat::Place Concat::place(std::int64_t index) const {
    if (index < 0 || index >= size()) {
        throw InvalidArgument(
            {.where = path(), .expected = fmt::format("an index below {}", size()), .got = fmt::format("{}", index)});
    }
    const auto number = static_cast<std::size_t>(std::ranges::upper_bound(begins_, index) - begins_.begin() - 1);
    return {*sources_[number], number, index - begins_[number]};
}

void Concat::read(std::int64_t index, Sample& sample) const {
    const Place at = place(index);
    at.source.read(at.index, sample);
}

std::string Concat::key(std::int64_t index) const {
    const Place at = place(index);
    return fmt::format("{}:{}", at.number, at.source.key(at.index));
}

void Concat::prefetch(std::span<const std::int64_t> indices) const {
    std::vector<std::vector<std::int64_t>> wanted(sources_.size());
    for (const std::int64_t index : indices) {
        const Place at = place(index);
        wanted[at.number].push_back(at.index);
    }
    for (std::size_t i = 0; i < sources_.size(); ++i) {
        if (!wanted[i].empty()) {
            sources_[i]->prefetch(wanted[i]);
        }
    }
}

std::optional<std::int64_t> Concat::label(std::int64_t index) const {
    const Place at = place(index);
    return at.source.label(at.index);
}

// Only where every source has shards: a window over the others' stored order would hold little but one class.
std::vector<std::int64_t> Concat::shard_sizes() const {
    std::vector<std::int64_t> all;
    for (const auto& source : sources_) {
        const std::vector<std::int64_t> sizes = source->shard_sizes();
        if (sizes.empty()) {
            return {};
        }
        all.insert(all.end(), sizes.begin(), sizes.end());
    }
    return all;
}

std::string Concat::path() const {
    std::vector<std::string> paths;
    std::ranges::transform(sources_, std::back_inserter(paths), [](const auto& source) { return source->path(); });
    return fmt::format("{}", fmt::join(paths, " + "));
}

std::int64_t Concat::bytes() const {
    std::int64_t sum = 0;
    for (const auto& source : sources_) {
        sum += source->bytes();
    }
    return sum;
}

}  // namespace stoker

// Weighted sampling: each group (a class, or one of several data sets) has a fixed share of every epoch. Within a group
// every sample is drawn once before any is drawn again, over all epochs.
// An epoch has a fixed number of draws (quota) per group. One permutation spreads the draws of all groups over the
// epoch; each group draws its samples by its permutations, one per pass.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"
#include "stoker/pipeline/sampling/permutation.h"
#include "stoker/pipeline/sampling/sampler_pass.h"

namespace stoker {
namespace {

// Permutation streams: the full shuffle uses 0 and up, windows those from 2^40.
constexpr std::uint64_t kEpochStream = std::uint64_t{1} << 44;
constexpr std::uint64_t kGroupStreams = kEpochStream + 1;

void check_group(const SamplerGroup& group, std::int64_t samples) {
    const auto inside = [&](std::int64_t index) { return index >= 0 && index < samples; };
    const bool range = group.size >= 1 && inside(group.first) && group.size <= samples - group.first;
    if (!(group.weight > 0) || !std::isfinite(group.weight) ||
        (group.indices.empty() ? !range : !std::ranges::all_of(group.indices, inside))) {
        throw InvalidArgument(
            {.where = "data.weights",
             .expected = fmt::format("groups with a positive weight and at least one sample below {}", samples),
             .got = fmt::format("weight {} and {} samples, the first {}", group.weight, group.count(),
                                group.indices.empty() ? group.first : group.indices.front())});
    }
}

// A sample in two groups would be drawn twice with the same augmentation. Ranges and single indices, sorted by their
// first index, must not overlap.
void check_overlap(const std::vector<SamplerGroup>& groups) {
    struct Range {
        std::int64_t first;
        std::int64_t end;
    };
    std::vector<Range> ranges;
    for (const SamplerGroup& group : groups) {
        if (group.indices.empty()) {
            ranges.push_back({group.first, group.first + group.size});
        }
        std::ranges::transform(group.indices, std::back_inserter(ranges), [](std::int64_t index) {
            return Range{index, index + 1};
        });
    }
    std::ranges::sort(ranges, {}, &Range::first);
    for (std::size_t i = 1; i < ranges.size(); ++i) {
        if (ranges[i].first < ranges[i - 1].end) {
            throw InvalidArgument({.where = "data.weights",
                                   .expected = "each sample in at most one group",
                                   .got = fmt::format("sample {} twice", ranges[i].first)});
        }
    }
}

// Rounds shares to whole draws by the largest-remainder method; of equal remainders the first group wins.
std::vector<std::int64_t> round_shares(const std::vector<SamplerGroup>& groups, std::int64_t draws) {
    const double largest = std::ranges::max_element(groups, {}, &SamplerGroup::weight)->weight;
    double sum = 0;  // of weights divided by the largest, so that it stays finite
    for (const SamplerGroup& group : groups) {
        sum += group.weight / largest;
    }
    std::vector<std::int64_t> quotas;
    std::vector<double> remainders;
    std::int64_t left = draws;
    for (const SamplerGroup& group : groups) {
        const double share = group.weight / largest / sum * static_cast<double>(draws);
        quotas.push_back(std::min(static_cast<std::int64_t>(share), left));
        remainders.push_back(share - std::floor(share));
        left -= quotas.back();
    }
    std::vector<std::size_t> by_remainder(groups.size());
    std::iota(by_remainder.begin(), by_remainder.end(), std::size_t{0});
    std::ranges::stable_sort(by_remainder, std::greater<>(), [&](std::size_t i) { return remainders[i]; });
    for (std::size_t i = 0; left > 0; i = (i + 1) % groups.size(), --left) {
        ++quotas[by_remainder[i]];
    }
    return quotas;
}

class WeightedSampler final : public Sampler {
  public:
    // Shares are rounded to whole samples by the largest-remainder method. Throws InvalidArgument for weights that are
    // not positive and finite, for groups that are empty, overlap or have indices outside the data set, and for a group
    // whose share is less than one sample per epoch.
    explicit WeightedSampler(const SamplerOptions& options)
        : groups_(options.groups), samples_(options.size), seed_(options.seed), shuffle_(options.shuffle) {
        for (SamplerGroup& group : groups_) {
            check_group(group, samples_);
            std::ranges::sort(group.indices);
        }
        check_overlap(groups_);
        std::int64_t end = 0;
        const std::int64_t draws = options.epoch_samples == 0 ? options.size : options.epoch_samples;
        const auto quotas = round_shares(groups_, draws);
        for (std::size_t i = 0; i < groups_.size(); ++i) {
            check_occurrences(quotas[i], groups_[i].count());
            if (quotas[i] == 0) {
                throw InvalidArgument({.where = "data.epoch_samples",
                                       .expected = "at least one sample an epoch from each data set or class",
                                       .got = fmt::format("0 of {} from number {} of {}", draws, i + 1, groups_.size()),
                                       .hint = "raise data.epoch_samples, or its weight in data.weights"});
            }
            end += quotas[i];
            ends_.push_back(end);
            const std::int64_t plain[] = {quotas[i], groups_[i].first, groups_[i].size};
            hash_ = hash_bytes(std::as_bytes(std::span(plain)), hash_);
            hash_ = hash_bytes(std::as_bytes(std::span(groups_[i].indices)), hash_);
        }
    }

    std::int64_t size() const override { return ends_.back(); }
    std::int64_t samples() const override { return samples_; }
    std::uint64_t seed() const override { return seed_; }

    void draw(std::int64_t epoch, std::int64_t first, std::span<SampledIndex> out) const override {
        const Permutation spread(size(), seed_, static_cast<std::uint32_t>(epoch), kEpochStream);
        for (std::size_t i = 0; i < out.size(); ++i) {
            const std::int64_t position = first + static_cast<std::int64_t>(i);
            const auto [number, start, at] = group_position(epoch, shuffle_ ? spread(position) : position);
            const SamplerGroup& group = groups_[number];
            // Passes may need more than 32 bits, so the high bits go into the seed.
            const Permutation within(group.count(), seed_ ^ at.pass >> 32, static_cast<std::uint32_t>(at.pass),
                                     kGroupStreams + number);
            out[i] = {.index = group.at(shuffle_ ? within(at.position) : at.position),
                      .occurrence = static_cast<std::uint16_t>(at.pass - start.pass)};
        }
    }

    // From the same group.
    std::optional<std::int64_t> substitute(std::int64_t epoch, std::int64_t position,
                                           std::int64_t attempt) const override {
        const Permutation spread(size(), seed_, static_cast<std::uint32_t>(epoch), kEpochStream);
        const auto [number, start, at] = group_position(epoch, shuffle_ ? spread(position) : position);
        const SamplerGroup& group = groups_[number];
        const auto other = substitute_place(group.count(), at.position, attempt, seed_, at.pass, number);
        return other ? std::optional(group.at(*other)) : std::nullopt;
    }

    std::string name() const override {
        return fmt::format("weighted, {} groups, {} an epoch, {} {:016x}", groups_.size(), size(),
                           shuffle_ ? "shuffled" : "sequential", hash_);
    }

  private:
    struct GroupPosition {
        std::size_t number = 0;
        PassPosition start;  // of the epoch
        PassPosition at;
    };

    // `place`: a draw of the epoch, in the order of the groups.
    GroupPosition group_position(std::int64_t epoch, std::int64_t place) const {
        const auto number = static_cast<std::size_t>(std::ranges::upper_bound(ends_, place) - ends_.begin());
        const std::int64_t begin = number == 0 ? 0 : ends_[number - 1];
        const std::int64_t quota = ends_[number] - begin;
        const std::int64_t count = groups_[number].count();
        return {number, pass_position(epoch, quota, 0, count), pass_position(epoch, quota, place - begin, count)};
    }

    std::vector<SamplerGroup> groups_;
    std::vector<std::int64_t> ends_;  // running sum of the groups' draws per epoch
    std::int64_t samples_;
    std::uint64_t seed_;
    bool shuffle_;
    std::uint64_t hash_ = 0;  // of everything above but the seed
};

}  // namespace

std::shared_ptr<const Sampler> make_weighted_sampler(const SamplerOptions& options) {
    return std::make_shared<WeightedSampler>(options);
}

}  // namespace stoker

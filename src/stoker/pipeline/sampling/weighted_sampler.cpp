// An epoch has a place for each draw of each group; one permutation spreads the places over the epoch, and each
// group's draws go through permutations of its own, pass after pass.
#include "stoker/pipeline/sampling/weighted_sampler.h"

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

// Streams of the permutation's keys: the whole data set's shuffle has 0, windows have those from 2^40 on.
constexpr std::uint64_t kPlaces = std::uint64_t{1} << 44;
constexpr std::uint64_t kGroups = kPlaces + 1;

void check_group(const SamplerGroup& group, std::int64_t samples) {
    const auto inside = [&](std::int64_t index) { return index >= 0 && index < samples; };
    const bool range = group.size >= 1 && inside(group.first) && group.size <= samples - group.first;
    if (!(group.weight > 0) || !std::isfinite(group.weight) ||
        (group.indices.empty() ? !range : !std::ranges::all_of(group.indices, inside))) {
        throw InvalidArgument({.where = "order",
                               .expected = fmt::format("groups of a positive weight and at least one sample, all below "
                                                       "{}",
                                                       samples),
                               .got = fmt::format("weight {} and {} samples from {} on", group.weight, group.count(),
                                                  group.indices.empty() ? group.first : group.indices.front())});
    }
}

// A sample of two groups would be drawn twice with the same augmentation. Sorted by where they begin, ranges and single
// indices are each to begin after the one before.
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
            throw InvalidArgument({.where = "order",
                                   .expected = "each sample in one group at most",
                                   .got = fmt::format("sample {} twice", ranges[i].first)});
        }
    }
}

// The largest remainders get what rounding down leaves over; among equals the first.
std::vector<std::int64_t> round_shares(const std::vector<SamplerGroup>& groups, std::int64_t draws) {
    const double largest = std::ranges::max_element(groups, {}, &SamplerGroup::weight)->weight;
    double sum = 0;  // of the weights by the largest, or it might be infinite
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

}  // namespace

WeightedSampler::WeightedSampler(const SamplerOptions& options)
    : groups_(options.groups), samples_(options.size), seed_(options.seed), shuffle_(options.shuffle) {
    for (SamplerGroup& group : groups_) {
        check_group(group, samples_);
        std::ranges::sort(group.indices);
    }
    check_overlap(groups_);
    std::int64_t end = 0;
    const auto quotas = round_shares(groups_, options.epoch_samples == 0 ? options.size : options.epoch_samples);
    for (std::size_t i = 0; i < groups_.size(); ++i) {
        check_occurrences(quotas[i], groups_[i].count());
        if (quotas[i] == 0) {
            throw InvalidArgument({.where = "order",
                                   .expected = "a share of at least one sample of an epoch for each group",
                                   .got = fmt::format("none of {} for number {} of {}",
                                                      options.epoch_samples == 0 ? options.size : options.epoch_samples,
                                                      i, groups_.size()),
                                   .hint = "draw more samples an epoch, or raise its weight"});
        }
        end += quotas[i];
        ends_.push_back(end);
        const std::int64_t plain[] = {quotas[i], groups_[i].first, groups_[i].size};
        hash_ = hash_bytes(std::as_bytes(std::span(plain)), hash_);
        hash_ = hash_bytes(std::as_bytes(std::span(groups_[i].indices)), hash_);
    }
}

void WeightedSampler::draw(std::int64_t epoch, std::int64_t first, std::span<Draw> out) const {
    const Permutation places(size(), seed_, static_cast<std::uint32_t>(epoch), kPlaces);
    for (std::size_t i = 0; i < out.size(); ++i) {
        const std::int64_t position = first + static_cast<std::int64_t>(i);
        const std::int64_t place = shuffle_ ? places(position) : position;
        const auto number = static_cast<std::size_t>(std::ranges::upper_bound(ends_, place) - ends_.begin());
        const std::int64_t begin = number == 0 ? 0 : ends_[number - 1];
        const std::int64_t quota = ends_[number] - begin;
        const SamplerGroup& group = groups_[number];
        const PassPlace start = pass_place(epoch, quota, 0, group.count());
        const PassPlace at = pass_place(epoch, quota, place - begin, group.count());
        // The pass is part of the stream's key; one group has fewer passes than there are epochs and occurrences.
        const Permutation within(group.count(), seed_ ^ at.pass >> 32, static_cast<std::uint32_t>(at.pass),
                                 kGroups + number);
        out[i] = {.index = group.at(shuffle_ ? within(at.position) : at.position),
                  .occurrence = static_cast<std::uint16_t>(at.pass - start.pass)};
    }
}

std::int64_t WeightedSampler::next(std::int64_t index) const {
    for (const SamplerGroup& group : groups_) {
        if (group.indices.empty()) {
            if (index >= group.first && index < group.first + group.size) {
                return group.first + (index - group.first + 1) % group.size;
            }
        } else if (const auto at = std::ranges::lower_bound(group.indices, index);
                   at != group.indices.end() && *at == index) {
            return at + 1 == group.indices.end() ? group.indices.front() : *(at + 1);
        }
    }
    return Sampler::next(index);  // of no group: never drawn
}

std::string WeightedSampler::name() const {
    return fmt::format("weighted, {} groups, {} an epoch, {} {:016x}", groups_.size(), size(),
                       shuffle_ ? "shuffled" : "sequential", hash_);
}

std::vector<std::int64_t> WeightedSampler::quotas() const {
    std::vector<std::int64_t> quotas(ends_.size());
    std::adjacent_difference(ends_.begin(), ends_.end(), quotas.begin());
    return quotas;
}

}  // namespace stoker

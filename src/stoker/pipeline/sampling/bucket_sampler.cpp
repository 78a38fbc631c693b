#include "stoker/pipeline/sampling/bucket_sampler.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <numeric>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"
#include "stoker/pipeline/sampling/permutation.h"
#include "stoker/pipeline/sampling/sampler_pass.h"

namespace stoker {
namespace {

// Permutation streams; those of other samplers and of substitutes are below.
constexpr std::uint64_t kBatchStream = std::uint64_t{1} << 47;
constexpr std::uint64_t kBucketStreams = kBatchStream + 1;

}  // namespace

std::int64_t bucket_length(std::int64_t length) {
    constexpr std::int64_t kLeast = 8;
    if (length <= kLeast) {
        return kLeast;
    }
    const auto step = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(length)) / 8);
    return (length + step - 1) / step * step;
}

BucketSampler::BucketSampler(std::span<const std::int64_t> lengths, const BucketOptions& options)
    : options_(options), members_(lengths.size()), lengths_(hash_bytes(std::as_bytes(lengths))) {
    std::vector<std::int64_t> rounded(lengths.size());
    std::ranges::transform(lengths, rounded.begin(), [&](std::int64_t length) {
        length = std::max<std::int64_t>(length, 0);
        const std::int64_t wanted = options.exact ? length : bucket_length(length);
        return options.most > 0 ? std::min(wanted, options.most) : wanted;
    });
    std::iota(members_.begin(), members_.end(), std::int64_t{0});
    std::ranges::stable_sort(members_, {}, [&](std::int64_t i) { return rounded[static_cast<std::size_t>(i)]; });
    for (std::size_t i = 0; i < members_.size(); ++i) {
        const std::int64_t length = rounded[static_cast<std::size_t>(members_[i])];
        if (buckets_.empty() || buckets_.back().length != length) {
            const std::int64_t rest = rest_for(length);
            buckets_.push_back({.length = length,
                                .first = static_cast<std::int64_t>(i) - rest,
                                .count = rest,
                                .batch = full_batch(length)});
        }
        ++buckets_.back().count;
    }
    std::vector<BucketBatch> by_length;
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
        const Bucket& bucket = buckets_[b];
        for (std::int64_t first = 0; first < bucket.count; first += bucket.batch) {
            const std::int64_t count = std::min(bucket.batch, bucket.count - first);
            if (count == bucket.batch || !options.drop_last) {
                by_length.push_back({.bucket = b, .first = first, .count = count});
            }
        }
    }
    if (by_length.empty()) {
        throw InvalidArgument({.where = "data.drop_last",
                               .expected = "at least one full batch",
                               .got = fmt::format("{} samples", lengths.size()),
                               .hint = "lower data.batch_tokens or data.batch_size, or set data.drop_last = false"});
    }
    const Permutation order(std::ssize(by_length), options.seed, 0, kBatchStream);
    begins_.push_back(0);
    for (std::int64_t i = 0; i < std::ssize(by_length); ++i) {
        batches_.push_back(by_length[static_cast<std::size_t>(options.shuffle ? order(i) : i)]);
        begins_.push_back(begins_.back() + batches_.back().count);
    }
}

// Takes the samples of the last bucket that do not fill a batch, if they are hardly shorter than `length`.
std::int64_t BucketSampler::rest_for(std::int64_t length) {
    if (buckets_.empty() || options_.exact || 4 * length > 5 * buckets_.back().length) {
        return 0;
    }
    Bucket& last = buckets_.back();
    const std::int64_t rest = last.count % last.batch;
    last.count -= rest;
    if (last.count == 0) {
        buckets_.pop_back();
    }
    return rest;
}

std::int64_t BucketSampler::full_batch(std::int64_t length) const {
    return options_.batch_tokens == 0 ? options_.batch_size : std::max<std::int64_t>(options_.batch_tokens / length, 1);
}

BucketSampler::Place BucketSampler::place_of(std::int64_t position) const {
    const auto batch = static_cast<std::size_t>(std::ranges::upper_bound(begins_, position) - begins_.begin()) - 1;
    return {.bucket = batches_[batch].bucket, .at = batches_[batch].first + position - begins_[batch]};
}

std::int64_t BucketSampler::member(const Place& place, std::int64_t epoch) const {
    const Bucket& bucket = buckets_[place.bucket];
    const Permutation order(bucket.count, options_.seed, static_cast<std::uint32_t>(epoch),
                            kBucketStreams + place.bucket);
    return members_[static_cast<std::size_t>(bucket.first + (options_.shuffle ? order(place.at) : place.at))];
}

void BucketSampler::draw(std::int64_t epoch, std::int64_t first, std::span<SampledIndex> out) const {
    for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = {.index = member(place_of(first + static_cast<std::int64_t>(i)), epoch)};
    }
}

std::optional<std::int64_t> BucketSampler::substitute(std::int64_t epoch, std::int64_t position,
                                                      std::int64_t attempt) const {
    Place place = place_of(position);
    const auto other = substitute_place(buckets_[place.bucket].count, place.at, attempt, options_.seed,
                                        static_cast<std::uint64_t>(epoch), 1 + place.bucket);
    if (!other) {  // all of the bucket are bad
        const std::int64_t behind = attempt - buckets_[place.bucket].count;
        return substitute_place(std::ssize(members_), position, behind, options_.seed,
                                static_cast<std::uint64_t>(epoch), 0);
    }
    place.at = *other;
    return member(place, epoch);
}

std::string BucketSampler::name() const {
    const std::string batch = options_.batch_tokens > 0 ? fmt::format("{} tokens", options_.batch_tokens)
                                                        : fmt::format("{} samples", options_.batch_size);
    const std::string cut = options_.most > 0 ? fmt::format(", up to {}", options_.most) : "";
    return fmt::format("{} by {} {:016x}, batches of {}{}", options_.shuffle ? "shuffled" : "sorted",
                       options_.exact ? "size" : "length", lengths_, batch, cut);
}

std::vector<BucketSampler::Length> BucketSampler::lengths() const {
    std::vector<Length> all;
    for (const Bucket& bucket : buckets_) {
        all.push_back({.length = bucket.length, .samples = bucket.count});
    }
    for (const BucketBatch& batch : batches_) {
        all[batch.bucket].used += batch.count;
    }
    return all;
}

std::int64_t BucketSampler::most_samples() const {
    return std::ranges::max(batches_, {}, &BucketBatch::count).count;
}

std::int64_t BucketSampler::most_entries(int world_size) const {
    std::int64_t most = 0;
    for (const BucketBatch& batch : batches_) {
        const std::int64_t slice = (batch.count - 1) / world_size + 1;
        most = std::max(most, slice * buckets_[batch.bucket].length);
    }
    return most;
}

}  // namespace stoker

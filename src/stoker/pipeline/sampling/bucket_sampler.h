// Batches of samples of similar length, so that little of a padded batch is padding. Each sample has a bucket of
// lengths; an epoch shuffles every bucket. The batches' lengths have the same order in all epochs, so that the batches
// begin at fixed positions. Samples that do not fill a batch join the next length, if it is at most a quarter larger,
// unless lengths are exact.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/pipeline/sampling/sampler.h"

namespace stoker {

struct BucketOptions {
    std::int64_t batch_size = 1;    // samples of a batch over all ranks, if `batch_tokens` is 0
    std::int64_t batch_tokens = 0;  // else the most entries of a batch, with padding; a longer sample is a batch alone
    std::int64_t most = 0;          // longer samples are cut to this length; 0: none are
    bool exact = false;             // lengths are numbers of sizes: neither rounded nor joined
    std::uint64_t seed = 0;
    bool shuffle = true;     // false: by length, and by index within a bucket
    bool drop_last = false;  // leave out the last batch of a bucket if it is not full
};

class BucketSampler final : public Sampler {
  public:
    // The length of each sample; negative for a bad one, which counts as the shortest. Throws InvalidArgument if no
    // batch is full, with `drop_last`.
    BucketSampler(std::span<const std::int64_t> lengths, const BucketOptions& options);

    std::int64_t size() const override { return begins_.back(); }
    void draw(std::int64_t epoch, std::int64_t first, std::span<SampledIndex> out) const override;
    std::int64_t samples() const override { return std::ssize(members_); }
    std::uint64_t seed() const override { return options_.seed; }
    // A sample of the same bucket, then any other, which its batch cuts if it is longer.
    std::optional<std::int64_t> substitute(std::int64_t epoch, std::int64_t position,
                                           std::int64_t attempt) const override;
    std::string name() const override;

    // The samples of one length, and those of them that an epoch has: fewer with `drop_last`.
    struct Length {
        std::int64_t length = 0;
        std::int64_t samples = 0;
        std::int64_t used = 0;
    };
    std::vector<Length> lengths() const;

    // The first position of each batch, and size().
    const std::vector<std::int64_t>& begins() const { return begins_; }
    // The length to which the samples of a batch are padded.
    std::int64_t length(std::int64_t batch) const { return bucket_of(batch).length; }
    std::int64_t longest() const { return buckets_.back().length; }
    std::int64_t most_samples() const;                // of a batch
    std::int64_t most_entries(int world_size) const;  // of a rank's slice of a batch, with padding

  private:
    struct Bucket {
        std::int64_t length = 0;  // of its longest sample, rounded up
        std::int64_t first = 0;   // its samples are members_[first, first + count)
        std::int64_t count = 0;
        std::int64_t batch = 0;  // samples of a full batch
    };
    struct BucketBatch {
        std::size_t bucket = 0;
        std::int64_t first = 0;  // in the bucket
        std::int64_t count = 0;
    };
    struct Place {
        std::size_t bucket = 0;
        std::int64_t at = 0;  // in the bucket, before shuffling
    };

    const Bucket& bucket_of(std::int64_t batch) const {
        return buckets_[batches_[static_cast<std::size_t>(batch)].bucket];
    }
    Place place_of(std::int64_t position) const;
    std::int64_t full_batch(std::int64_t length) const;
    std::int64_t rest_for(std::int64_t length);
    std::int64_t member(const Place& place, std::int64_t epoch) const;

    BucketOptions options_;
    std::vector<std::int64_t> members_;  // all samples, by bucket
    std::vector<Bucket> buckets_;        // the shortest first
    std::vector<BucketBatch> batches_;
    std::vector<std::int64_t> begins_;
    std::uint64_t lengths_ = 0;  // a hash
};

// Rounded up to a multiple of an eighth of the power of two below it; at least 8.
std::int64_t bucket_length(std::int64_t length);

}  // namespace stoker

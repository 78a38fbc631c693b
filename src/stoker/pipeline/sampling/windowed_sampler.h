// For data that is best read one shard after the other: shards in a shuffled sequence, cut into windows that lie side
// by side, samples shuffled within each. As deterministic as the full shuffle.
#pragma once

#include <memory>
#include <mutex>

#include "stoker/pipeline/sampling/sampler.h"

namespace stoker {

class WindowedSampler final : public Sampler {
  public:
    // Throws InvalidArgument where the shards' sizes do not add up to the data set's.
    explicit WindowedSampler(const SamplerOptions& options);

    std::int64_t size() const override { return size_; }
    std::int64_t samples() const override { return size_; }
    std::uint64_t seed() const override { return seed_; }
    void draw(std::int64_t epoch, std::int64_t first, std::span<Draw> out) const override;
    std::string name() const override;

  private:
    // The shards in one epoch's sequence.
    struct Sequence {
        std::int64_t epoch = -1;
        std::vector<std::int64_t> ends;    // position after each shard
        std::vector<std::int64_t> firsts;  // index of each shard's first sample
    };
    std::shared_ptr<const Sequence> sequence(std::int64_t epoch) const;

    std::int64_t size_;
    std::int64_t window_;
    std::uint64_t seed_;
    std::vector<std::int64_t> begins_;  // index of each shard's first sample, and the end
    mutable std::mutex mutex_;          // guards the sequence used last
    mutable std::shared_ptr<const Sequence> last_;
};

}  // namespace stoker

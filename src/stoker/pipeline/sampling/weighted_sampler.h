// Weighted sampling: each group (a class, a source of several) has a fixed share of every epoch, and within a group
// every sample comes once before any comes again, over all epochs.
#pragma once

#include "stoker/pipeline/sampling/sampler.h"

namespace stoker {

class WeightedSampler final : public Sampler {
  public:
    // Shares are rounded to whole samples by the largest remainders. Throws InvalidArgument for weights that are
    // not positive and finite, for groups that are empty, overlap or leave the data set, and where a group's share
    // is not one sample of an epoch.
    explicit WeightedSampler(const SamplerOptions& options);

    std::int64_t size() const override { return ends_.back(); }
    std::int64_t samples() const override { return samples_; }
    std::uint64_t seed() const override { return seed_; }
    std::int64_t next(std::int64_t index) const override;
    void draw(std::int64_t epoch, std::int64_t first, std::span<Draw> out) const override;
    std::string name() const override;

    // Draws of each group in an epoch.
    std::vector<std::int64_t> quotas() const;

  private:
    std::vector<SamplerGroup> groups_;
    std::vector<std::int64_t> ends_;  // of each group's places in an epoch
    std::int64_t samples_;
    std::uint64_t seed_;
    bool shuffle_;
    std::uint64_t hash_ = 0;  // of everything above but the seed
};

}  // namespace stoker

// A share of another dataset, chosen by the hash of each sample's key: the same samples whatever the
// order or number of the others, so a split survives new files.
#pragma once

#include <memory>
#include <vector>

#include "stoker/formats/dataset.h"

namespace stoker {

class Subset final : public Dataset {
  public:
    // `indices` into `dataset`, in the order this dataset presents them.
    Subset(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> indices);

    const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }
    const std::vector<std::int64_t>& indices() const { return indices_; }

    std::int64_t size() const override;
    void read(std::int64_t index, Sample& sample) const override;
    std::string key(std::int64_t index) const override;
    void prefetch(std::span<const std::int64_t> indices) const override;
    std::optional<std::int64_t> label(std::int64_t index) const override;
    std::vector<std::int64_t> shard_sizes() const override;
    std::span<const std::string> classes() const override;
    std::string_view format() const override;
    std::string path() const override;
    // The dataset's bytes in proportion to the samples: an estimate where their sizes differ.
    std::int64_t bytes() const override;

  private:
    std::int64_t source_index(std::int64_t index) const;

    std::shared_ptr<const Dataset> dataset_;
    std::vector<std::int64_t> indices_;
};

struct SplitSources {
    std::shared_ptr<const Subset> rest;
    std::shared_ptr<const Subset> share;
};

// Splits by key hash: `share` in (0, 1) is the expected part that goes to `.share`. Throws
// InvalidArgument where either part would be empty.
SplitSources split_by_key(std::shared_ptr<const Dataset> dataset, double share);

}  // namespace stoker

// Several data sets one after the other, as torch's ConcatDataset. A recipe's data.mix draws from it.
#pragma once

#include <memory>
#include <vector>

#include "stoker/formats/dataset.h"

namespace stoker {

class ConcatDataset final : public Dataset {
  public:
    // All must have the same classes and fields. Throws InvalidArgument if they differ, or if `datasets` is
    // empty.
    explicit ConcatDataset(std::vector<std::shared_ptr<const Dataset>> datasets);

    std::int64_t size() const override { return begins_.back(); }
    void read(std::int64_t index, Sample& sample) const override;
    bool has_image() const override { return datasets_.front()->has_image(); }
    std::span<const Field> fields() const override { return datasets_.front()->fields(); }
    std::vector<Field> stored_fields() const override { return datasets_.front()->stored_fields(); }
    // "1:cat/001.jpg": the dataset's number, from 0, comes first because two datasets may hold the same keys.
    std::string key(std::int64_t index) const override;
    void prefetch(std::span<const std::int64_t> indices) const override;
    std::optional<std::int64_t> label(std::int64_t index) const override;
    std::optional<std::int64_t> entries(std::int64_t index, std::size_t at) const override;
    std::vector<std::int64_t> shard_sizes() const override;
    std::span<const std::string> classes() const override { return datasets_.front()->classes(); }
    std::string_view format() const override { return "concat"; }
    std::string path() const override;    // all paths, joined by " + "
    std::string advice() const override;  // of all, each with its path
    std::int64_t bytes() const override;

  private:
    struct Place {
        const Dataset& dataset;
        std::size_t number;
        std::int64_t index;
    };
    Place place(std::int64_t index) const;

    std::vector<std::shared_ptr<const Dataset>> datasets_;
    std::vector<std::int64_t> begins_;  // first index of each dataset, then size()
};

}  // namespace stoker

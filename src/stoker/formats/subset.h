// Chosen samples of another data set, as torch's Subset; and the split of a data set by the hash of each sample's key.
// Neither their order nor the machine moves one to the other side; n new samples of a class move at most n old ones.
#pragma once

#include <memory>
#include <vector>

#include "stoker/formats/dataset.h"

namespace stoker {

// A range of the keys' hashes, as fractions: from `begin` on, and below `end`.
struct HashRange {
    double begin = 0;
    double end = 1;
};

class Subset final : public Dataset {
  public:
    // Sample i is sample indices[i] of `dataset`. An index may come more than once. `hashes`: the range of the keys, if
    // a split has made it. Throws InvalidArgument for an index that `dataset` does not have.
    Subset(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> indices, HashRange hashes = {});

    HashRange hashes() const { return hashes_; }
    const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }
    const std::vector<std::int64_t>& indices() const { return indices_; }

    std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
    void read(std::int64_t index, Sample& sample) const override { dataset_->read(dataset_index(index), sample); }
    bool has_image() const override { return dataset_->has_image(); }
    std::span<const Field> fields() const override { return dataset_->fields(); }
    std::vector<Field> stored_fields() const override { return dataset_->stored_fields(); }
    std::string key(std::int64_t index) const override { return dataset_->key(dataset_index(index)); }
    void prefetch(std::span<const std::int64_t> indices) const override;
    std::optional<std::int64_t> label(std::int64_t index) const override {
        return dataset_->label(dataset_index(index));
    }
    std::optional<std::int64_t> entries(std::int64_t index, std::size_t at) const override {
        return dataset_->entries(dataset_index(index), at);
    }
    // The chosen samples of each shard; empty unless `indices` is sorted, since shards are read in stored order.
    std::vector<std::int64_t> shard_sizes() const override;
    std::span<const std::string> classes() const override { return dataset_->classes(); }
    std::string_view format() const override { return dataset_->format(); }
    std::string path() const override { return dataset_->path(); }
    std::string advice() const override { return dataset_->advice(); }
    // An estimate: the dataset's bytes times the share of samples.
    std::int64_t bytes() const override;

  private:
    std::int64_t dataset_index(std::int64_t index) const;

    std::shared_ptr<const Dataset> dataset_;
    std::vector<std::int64_t> indices_;
    HashRange hashes_;
};

// The two sides of a split.
struct SplitDatasets {
    std::shared_ptr<const Subset> rest;
    std::shared_ptr<const Subset> share;
};

// Splits by key hash, stratified by class where labels are known without reading the samples. `share` in (0, 1) is the
// fraction of each class in `.share`, rounded up or down by the hash of the class's name; of samples without a label it
// is the expected fraction, also if `dataset` is a side of a split. Throws InvalidArgument if either side would be
// empty, or the DataError of the first sample if it cannot be read.
SplitDatasets split_by_key(std::shared_ptr<const Dataset> dataset, double share);

}  // namespace stoker

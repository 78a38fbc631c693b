// A data set whose labels are those of other classes of the same names: validation data may have its classes in another
// order than the training data, or lack some of them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stoker/formats/dataset.h"

namespace stoker {

// A field whose numbers have names: value i becomes labels[i], an index into `classes`.
struct FieldLabels {
    std::size_t field = 0;  // its place in the data set's fields
    std::vector<std::string> classes = {};
    std::vector<std::int64_t> labels = {};
};

class Relabelled final : public Dataset {
  public:
    // Label i of `dataset` becomes labels[i], an index into `classes`; -1 (no label) stays.
    Relabelled(std::shared_ptr<const Dataset> dataset, std::vector<std::string> classes,
               std::vector<std::int64_t> labels, std::vector<FieldLabels> fields = {});

    std::int64_t size() const override { return dataset_->size(); }
    // Throws DataError for a label that is not a class of `dataset`.
    void read(std::int64_t index, Sample& sample) const override;
    bool has_image() const override { return dataset_->has_image(); }
    std::span<const Field> fields() const override { return fields_; }
    std::string key(std::int64_t index) const override { return dataset_->key(index); }
    void prefetch(std::span<const std::int64_t> indices) const override { dataset_->prefetch(indices); }
    std::optional<std::int64_t> label(std::int64_t index) const override;
    std::optional<std::int64_t> entries(std::int64_t index, std::size_t at) const override {
        return dataset_->entries(index, at);
    }
    std::vector<std::int64_t> shard_sizes() const override { return dataset_->shard_sizes(); }
    std::span<const std::string> classes() const override { return classes_; }
    std::string_view format() const override { return dataset_->format(); }
    std::string path() const override { return dataset_->path(); }
    std::string advice() const override;  // also names the classes without samples
    std::int64_t bytes() const override { return dataset_->bytes(); }

  private:
    std::shared_ptr<const Dataset> dataset_;
    std::vector<std::string> classes_;
    std::vector<std::int64_t> labels_;
    std::vector<FieldLabels> maps_;
    std::vector<Field> fields_;
};

// `dataset` with the labels of `classes`, which are those of `origin`: the same data set if its classes are the same,
// in the same order. Fields whose numbers have names are matched too: to `classes`, or to the names of `fields`, which
// are those of `origin`. Throws InvalidArgument for a class that is not among them.
std::shared_ptr<const Dataset> match_classes(std::span<const std::string> classes, const std::string& origin,
                                             std::shared_ptr<const Dataset> dataset,
                                             std::span<const Field> fields = {});

}  // namespace stoker

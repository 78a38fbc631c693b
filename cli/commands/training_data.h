// A data set as training sees it, one sample at a time: the order of an epoch and the ops of a
// recipe, by the same steps as the loader's (sampler, transform).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/formats/open.h"
#include "stoker/pipeline/sampling/sampler.h"
#include "stoker/pipeline/transforms/transform.h"
#include "stoker/recipe/recipe.h"

namespace stoker::cli {

struct TrainingDataOptions {
    std::string data;    // empty: the recipe's data.train
    std::string recipe;  // empty: no ops, and in order unless an epoch or a seed is given
    std::vector<std::string> sets;
    std::optional<std::int64_t> epoch;
    std::optional<std::int64_t> seed;  // empty: the recipe's
    FieldNames fields = {};            // empty: the recipe's
};

// Samples are named by their index in the whole of the data. Where the recipe holds a share back for
// evaluation, the loader numbers what is left afresh, and order and augmentation go by that number.
class TrainingData {
  public:
    // Throws what read_recipe and open_dataset throw.
    explicit TrainingData(const TrainingDataOptions& options);

    const Dataset& dataset() const { return *dataset_; }
    std::uint64_t seed() const { return seed_; }
    std::int64_t epoch() const { return epoch_; }

    // The first batch of the epoch, `most` samples of it at most.
    std::vector<Draw> first_batch(std::int64_t most) const;

    // True for samples that training never sees.
    bool held_back(std::int64_t index) const;

    // The sample after the training ops but for normalize. The view and `label` hold until the next
    // call. Throws DataError with the sample's place, and IoError.
    ConstImageView pixels(Draw draw);

    // The same sample as the model gets it: float32 (C, H, W) of the shape that `pixels` gives. Throws the same.
    std::vector<float> values(Draw draw);
    std::int64_t label() const { return sample_.label; }

  private:
    void read(std::int64_t index);
    RngKey key_of(Draw draw) const;
    std::int64_t training_index(std::int64_t index) const;

    std::shared_ptr<const Dataset> dataset_;
    std::vector<std::int64_t> kept_;  // training index -> index in dataset_; empty: all of them
    std::shared_ptr<const Sampler> sampler_;
    Transform transform_;
    std::uint64_t seed_ = 0;
    std::int64_t epoch_ = 0;
    std::int64_t batch_size_ = 0;
    Sample sample_;
    TransformScratch scratch_;
};

}  // namespace stoker::cli

// Single samples as training or evaluation receives them: in the sampler's order and with the recipe's ops. Uses the
// loader's own sampler and transform.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/formats/open.h"
#include "stoker/pipeline/clip_options.h"
#include "stoker/pipeline/sampling/sampler.h"
#include "stoker/pipeline/transforms/transform.h"
#include "stoker/recipe/recipe.h"

namespace stoker::cli {

struct TrainingDataOptions {
    std::string data;    // empty: the recipe's data.train
    std::string recipe;  // empty: no ops, and no shuffling unless an epoch or a seed is given
    std::vector<std::string> sets;
    std::optional<std::int64_t> epoch;
    std::optional<std::int64_t> seed;  // empty: the recipe's
    FieldNames fields = {};            // an empty name or `more`: the recipe's
    bool val = false;  // the recipe's validation data and ops, in stored order; `data` replaces data.val
};

// Samples are identified by their index in the whole data set. If the recipe holds a share back for evaluation, the
// loader renumbers the rest; sample order and augmentation depend on the new number.
class TrainingData {
  public:
    // Throws what read_recipe and open_dataset throw.
    explicit TrainingData(const TrainingDataOptions& options);

    const Dataset& dataset() const { return *dataset_; }
    std::uint64_t seed() const { return seed_; }
    std::int64_t epoch() const { return epoch_; }

    // The first batch of the epoch, cut to `max_size` samples.
    std::vector<SampledIndex> first_batch(std::int64_t max_size) const;

    // True for samples of the data set that training (with `val`, evaluation) does not use.
    bool held_back(std::int64_t index) const;

    // The sample after all ops except normalize; of a clip up to eight of its frames side by side; of a sound its
    // waveform, or its spectrogram with the lowest band at the bottom. The view and `label` are valid until the next
    // call. Throws DataError with the sample's path and key, and IoError.
    ConstImageView pixels(SampledIndex draw);
    // The frames of the sample that `pixels` gave last, 0 for an image, and one of them, or the image.
    std::int64_t frames() const { return std::ssize(sample_.frames); }
    ConstImageView frame(std::int64_t number);

    // The same sample as model input, in `out`: float32 (C, H, W), of a clip (T, C, H, W). Throws what `pixels` throws.
    TensorView values(SampledIndex draw, std::vector<float>& out);
    std::int64_t label() const { return sample_.label; }

    // Field `at` of the sample that `pixels` gave last: as stored; a mask (H, W, 1), valid until the next call, and
    // boxes, (K, 4) floats, after the ops. Throw DataError for damaged values.
    const FieldValue& field(std::size_t at) { return sample_.field(at); }
    ConstImageView mask(std::size_t at);
    std::vector<float> boxes(std::size_t at);

  private:
    void plan_fields(const DataRecipe& recipe, bool val);
    RngKey key_of(SampledIndex draw) const;
    const Transform& transform_of(std::size_t field) const;
    ConstImageView strip();
    ConstImageView sound_picture(ConstImageView picture);

    std::shared_ptr<const Dataset> dataset_;
    std::vector<std::int64_t> kept_;  // training index -> index in dataset_; empty: all samples
    std::shared_ptr<const Sampler> sampler_;
    Transform transform_;
    std::vector<std::optional<Transform>> own_transforms_;  // of the data set's fields; empty: transform_
    std::vector<std::optional<MaskClasses>> classes_;       // of its masks; empty: their values are classes
    std::uint64_t seed_ = 0;
    std::int64_t epoch_ = 0;
    std::int64_t batch_size_ = 0;
    ClipOptions clips_;
    Sample sample_;
    Buffer recording_;
    Image strip_;
    RngKey key_;       // of the sample that `pixels` gave last
    ImageSize image_;  // its size before the ops
    TransformScratch scratch_;
    TransformScratch field_scratch_;
};

}  // namespace stoker::cli

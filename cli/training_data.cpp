// Samples are prepared on the caller's thread: for a batch or less that takes no time.
#include "training_data.h"

#include <algorithm>

#include "stoker/base/error.h"
#include "stoker/formats/open.h"
#include "stoker/formats/subset.h"
#include "stoker/pipeline/sampler.h"

namespace stoker::cli {

TrainingData::TrainingData(const TrainingDataOptions& options) {
    Recipe recipe;
    recipe.data.shuffle = options.seed || options.epoch;
    if (!options.recipe.empty()) {
        recipe = read_recipe(options.recipe, options.sets);
        transform_ = Transform(recipe.data.train_ops, transform_options(recipe.data));
    }
    source_ = open_source(options.data.empty() ? recipe.data.train : options.data, Split::train);
    seed_ = options.seed ? static_cast<std::uint64_t>(*options.seed) : recipe.seed;
    epoch_ = options.epoch.value_or(0);
    batch_size_ = recipe.data.batch_size;
    shuffle_ = recipe.data.shuffle;
    if (const std::optional<double> share = val_share(recipe.data.val)) {
        hold_back(*share);
    }
}

std::vector<std::int64_t> TrainingData::first_batch(std::int64_t most) const {
    const std::int64_t size = kept_.empty() ? source_->size() : static_cast<std::int64_t>(kept_.size());
    const Sampler sampler({.size = size, .batch_size = batch_size_, .seed = seed_, .shuffle = shuffle_});
    const Sampler::Order order = sampler.order(epoch_);
    std::vector<std::int64_t> indices;
    for (std::int64_t i = 0; i < std::min(sampler.slice(0).count, most); ++i) {
        indices.push_back(kept_.empty() ? order(i) : kept_[static_cast<std::size_t>(order(i))]);
    }
    return indices;
}

bool TrainingData::held_back(std::int64_t index) const {
    return !kept_.empty() && !std::ranges::binary_search(kept_, index);
}

ConstImageView TrainingData::pixels(std::int64_t index) {
    try {
        read(index);
        StageTimes times;
        StageClock clock(times);
        return transform_.augment(transform_.prepare(sample_, scratch_, clock), key_of(index), scratch_);
    } catch (const DataError& error) {
        throw error.located({.path = source_->path(), .key = source_->key(index), .index = index});
    }
}

std::vector<float> TrainingData::values(std::int64_t index) {
    const ConstImageView shape = pixels(index);
    std::vector<float> out(shape.row_bytes() * static_cast<std::size_t>(shape.height));
    const ImageSlot slot{.pixels = {.data = reinterpret_cast<std::byte*>(out.data())},
                         .channels = shape.channels,
                         .height = shape.height,
                         .width = shape.width};
    StageTimes times;
    StageClock clock(times);
    transform_.run(sample_, key_of(index), scratch_, slot, clock);
    return out;
}

void TrainingData::read(std::int64_t index) {
    sample_.label = -1;
    source_->read(index, sample_);
}

RngKey TrainingData::key_of(std::int64_t index) const {
    return {.seed = seed_,
            .epoch = static_cast<std::uint32_t>(epoch_),
            .sample = static_cast<std::uint64_t>(training_index(index))};
}

void TrainingData::hold_back(double share) {
    const auto rest = split_by_key(source_, share).rest;  // in the same order, with gaps
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < rest->size(); ++i, ++at) {
        for (const std::string key = rest->key(i); source_->key(at) != key;) {
            ++at;
        }
        kept_.push_back(at);
    }
}

std::int64_t TrainingData::training_index(std::int64_t index) const {
    return kept_.empty() || held_back(index) ? index : std::ranges::lower_bound(kept_, index) - kept_.begin();
}

}  // namespace stoker::cli

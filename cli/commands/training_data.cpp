// Samples are prepared on the caller's thread, which is fast enough for one batch.
#include "cli/commands/training_data.h"

#include <algorithm>
#include <cstring>

#include "stoker/base/error.h"
#include "stoker/formats/dataset.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/subset.h"
#include "stoker/pipeline/read_sample.h"
#include "stoker/pipeline/recipe_data.h"
#include "stoker/pipeline/transforms/overlay.h"

namespace stoker::cli {

namespace {

constexpr std::int64_t kShownFrames = 8;

void set_fields(const FieldNames& given, FieldsRecipe& fields) {
    fields.image = given.image.empty() ? fields.image : given.image;
    fields.label = given.label.empty() ? fields.label : given.label;
    fields.clips = given.clips;
    if (!given.more.empty()) {
        fields.more.clear();
    }
    for (const FieldRequest& request : given.more) {
        const std::string kind =
            request.kind ? std::string(field_kind_name(*request.kind)) : "";  // the format's choice
        fields.more.push_back({.name = request.name, .is = kind, .from = request.from});
    }
}

}  // namespace

TrainingData::TrainingData(const TrainingDataOptions& options) {
    Recipe recipe;
    recipe.data.shuffle = options.seed || options.epoch;
    if (!options.recipe.empty()) {
        recipe = read_recipe(options.recipe, options.sets);
        transform_ =
            Transform(options.val ? recipe.data.val_ops : recipe.data.train_ops, transform_options(recipe.data));
    }
    if (!options.data.empty() && options.val) {
        recipe.data.val = options.data;
    } else if (!options.data.empty()) {
        recipe.data.train = options.data;
        recipe.data.mix.clear();
        recipe.data.weights.clear();
    }
    set_fields(options.fields, recipe.data.fields);
    recipe.seed = options.seed ? static_cast<std::uint64_t>(*options.seed) : recipe.seed;
    const RecipeData data = options.val ? open_val_data(recipe.data) : open_train_data(recipe.data);
    clips_ = clip_options(recipe.data, data, recipe.data.shuffle && !options.val);
    dataset_ = options.val ? data.val : data.train;
    if (const auto* subset = dynamic_cast<const Subset*>(dataset_.get())) {
        kept_ = subset->indices();
        dataset_ = subset->dataset();
    }
    sampler_ = options.val ? make_sampler({.size = data.val->size(), .seed = recipe.seed, .shuffle = false})
                           : train_sampler(recipe, data);
    seed_ = recipe.seed;
    epoch_ = options.epoch.value_or(0);
    batch_size_ = recipe.data.batch_size;
    plan_fields(recipe.data, options.val);
}

void TrainingData::plan_fields(const DataRecipe& recipe, bool val) {
    for (const Field& field : dataset_->fields()) {
        const auto found = std::ranges::find(recipe.fields.more, field.name, &FieldRecipe::name);
        const auto ops = found == recipe.fields.more.end() ? std::nullopt : val ? found->val_ops : found->train_ops;
        classes_.push_back(found == recipe.fields.more.end() ? std::nullopt : mask_classes(found->values));
        own_transforms_.push_back(ops ? std::optional(Transform(*ops, transform_options(recipe))) : std::nullopt);
        if (field.kind == FieldKind::mask || field.kind == FieldKind::boxes) {
            require_overlay_ops(transform_of(own_transforms_.size() - 1).ops(), field);
        }
    }
}

const Transform& TrainingData::transform_of(std::size_t field) const {
    const std::optional<Transform>& own = own_transforms_[field];
    return own ? *own : transform_;
}

std::vector<SampledIndex> TrainingData::first_batch(std::int64_t max_size) const {
    std::vector<SampledIndex> draws(static_cast<std::size_t>(std::min({batch_size_, sampler_->size(), max_size})));
    sampler_->draw(epoch_, 0, draws);
    for (SampledIndex& draw : draws) {
        draw.index = kept_.empty() ? draw.index : kept_[static_cast<std::size_t>(draw.index)];
    }
    return draws;
}

bool TrainingData::held_back(std::int64_t index) const {
    return !kept_.empty() && !std::ranges::binary_search(kept_, index);
}

ConstImageView TrainingData::pixels(SampledIndex draw) {
    const std::int64_t index = draw.index;
    try {
        key_ = key_of(draw);
        const FrameWindow wanted = wanted_frames(clips_, index, key_);
        read_sample(*dataset_, index, sample_, wanted);
        const bool sound =
            sample_.encoded && (is_sound(sample_.bytes) || (wanted.sample_rate > 0 && is_video(sample_.bytes)));
        decode_wanted(sample_, wanted.count > 0 || sound ? wanted : FrameWindow{.count = kShownFrames}, recording_,
                      transform_.options().channels);
        const ConstImageView picture = frames() > 0 ? strip() : frame(0);
        image_ = scratch_.input;
        return sound ? sound_picture(picture) : picture;
    } catch (const DataError& error) {
        throw error.located({.path = dataset_->path(), .key = key_or_index(*dataset_, index), .index = index});
    }
}

ConstImageView TrainingData::frame(std::int64_t number) {
    StageTimes times;
    StageClock clock(times);
    const FieldValue& image = frames() > 0 ? sample_.frames[static_cast<std::size_t>(number)] : sample_;
    return transform_.picture(image, key_, scratch_, clock);
}

ConstImageView TrainingData::sound_picture(ConstImageView picture) {
    constexpr int kWaveHeight = 120;
    constexpr int kMostColumns = 160;
    if (picture.height > 1) {
        strip_.reset(picture.height, picture.width, picture.channels);
        for (int y = 0; y < picture.height; ++y) {
            std::copy_n(picture.row(picture.height - 1 - y), picture.row_bytes(), strip_.view().row(y));
        }
        return strip_.view();
    }
    // From the smallest to the largest value of the samples of each column.
    const int columns = std::min(picture.width, kMostColumns);
    strip_.reset(kWaveHeight, columns, 1);
    const ImageView wave = strip_.view();
    std::fill_n(wave.data, std::ptrdiff_t{kWaveHeight} * columns, std::uint8_t{255});
    const auto begin = [&](int x) { return static_cast<int>(std::int64_t{x} * picture.width / columns); };
    for (int x = 0; x < columns; ++x) {
        int low = 255;
        int high = 0;
        for (int i = begin(x); i < begin(x + 1); ++i) {
            const int value = picture.data[std::ptrdiff_t{i} * picture.channels];
            low = std::min(low, value);
            high = std::max(high, value);
        }
        const auto row = [](int value) { return (255 - value) * (kWaveHeight - 1) / 255; };
        for (int y = row(high); y <= row(low); ++y) {
            wave.row(y)[x] = 0;
        }
    }
    return wave;
}

// Some frames of the clip side by side.
ConstImageView TrainingData::strip() {
    const std::int64_t count = std::min(frames(), kShownFrames);
    for (std::int64_t i = 0; i < count; ++i) {
        const ConstImageView own = frame(count == 1 ? 0 : i * (frames() - 1) / (count - 1));
        if (i == 0) {
            strip_.reset(own.height, own.width * static_cast<int>(count), own.channels);
        }
        const ImageView all = strip_.view();
        if (own.height != all.height || own.width * count != all.width || own.channels != all.channels) {
            throw DataError({}, {.where = "clip", .expected = "frames of one size", .got = "several"});
        }
        copy_pixels(own, {all.data + i * own.width * own.channels, own.height, own.width, own.channels, all.stride});
    }
    return strip_.view();
}

TensorView TrainingData::values(SampledIndex draw, std::vector<float>& out) {
    StageTimes times;
    StageClock clock(times);
    pixels(draw);
    const ConstImageView shown = frame(0);
    ImageSlot slot{.pixels = {}, .channels = shown.channels, .height = shown.height, .width = shown.width};
    slot.frames = static_cast<int>(frames());
    const FieldValue& first = first_image(sample_);
    if (transform_.takes_planes(first, scratch_)) {
        slot.channels = transform_.planes(first, key_, scratch_, clock).channels;
        slot.planes = true;
    }
    TensorView values{.dtype = DType::float32, .shape = slot.shape()};
    out.resize(static_cast<std::size_t>(values.elements()));
    values.data = slot.pixels.data = reinterpret_cast<std::byte*>(out.data());
    transform_.run(sample_, key_, scratch_, slot, clock);
    return values;
}

ConstImageView TrainingData::mask(std::size_t at) {
    StageTimes times;
    StageClock clock(times);
    const MaskClasses* classes = classes_[at] ? &*classes_[at] : nullptr;
    return transform_of(at).mask(first_image(sample_.field(at)), image_, OpRange::all, key_, field_scratch_, clock,
                                 classes);
}

std::vector<float> TrainingData::boxes(std::size_t at) {
    const std::span<const std::byte> bytes = sample_.field(at).bytes;
    std::vector<float> boxes(bytes.size() / sizeof(float));
    std::memcpy(boxes.data(), bytes.data(), boxes.size() * sizeof(float));
    transform_of(at).boxes(boxes, image_, OpRange::all, key_);
    return boxes;
}

RngKey TrainingData::key_of(SampledIndex draw) const {
    const bool renumbered = !kept_.empty() && !held_back(draw.index);
    const std::int64_t number = renumbered ? std::ranges::lower_bound(kept_, draw.index) - kept_.begin() : draw.index;
    return {.seed = seed_,
            .epoch = static_cast<std::uint32_t>(epoch_),
            .sample = static_cast<std::uint64_t>(number),
            .occurrence = draw.occurrence};
}

}  // namespace stoker::cli

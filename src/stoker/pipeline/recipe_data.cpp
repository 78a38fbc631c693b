// [data] of a recipe to data sets and loader options.
#include "stoker/pipeline/recipe_data.h"

#include <algorithm>
#include <fmt/format.h>

#include "stoker/base/cpu_cores.h"
#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/base/url_secrets.h"
#include "stoker/base/user_cache.h"
#include "stoker/formats/concat.h"
#include "stoker/formats/lengths.h"
#include "stoker/formats/open.h"
#include "stoker/formats/subset.h"
#include "stoker/pipeline/aspect_buckets.h"
#include "stoker/pipeline/cache/open_jpeg_index.h"
#include "stoker/pipeline/transforms/op_table.h"
#include "stoker/recipe/values.h"

namespace stoker {
namespace {

using DatasetPtr = std::shared_ptr<const Dataset>;

std::string cache_dir(const DataRecipe& recipe, const char* purpose) {
    if (!recipe.cache_dir.empty()) {
        return recipe.cache_dir;
    }
    const auto all = user_cache_dir();
    if (all.empty()) {
        throw InvalidArgument({.where = "data.cache_dir",
                               .expected = "a folder for cache = \"disk\"",
                               .got = "none, and there is no home folder for the default"});
    }
    return (all / purpose).string();
}

// The disk cache holds either samples or fetched bytes: fetched bytes if any data set is remote.
bool keeps_remote_bytes(const DataRecipe& recipe) {
    const std::vector<std::string> sets = training_sets(recipe);
    return recipe.cache == "disk" && (is_remote(recipe.val) || std::ranges::any_of(sets, is_remote));
}

// That of data.train also keeps the images of data.mix, and of a share that is data.val.
std::shared_ptr<JpegIndex> jpeg_index_of(const DataRecipe& recipe, const RecipeData& data, const Dataset& dataset) {
    const bool own_val = &dataset == data.val.get() && !recipe.val.empty() && !parse_share(recipe.val);
    const std::string& name = own_val ? recipe.val : recipe.train;
    return recipe.jpeg_index && !name.empty() && dataset.has_image() ? open_jpeg_index(name) : nullptr;
}

// cache_bytes is divided between the two loaders by their numbers of samples.
LoaderOptions common_options(const Recipe& recipe, const RecipeData& data, const Dataset& dataset) {
    use_memory_limit(recipe.data);
    LoaderOptions options{.batch_size = recipe.data.batch_size, .prefetch = recipe.data.prefetch, .seed = recipe.seed};
    options.bad_samples = recipe.data.bad_samples.of(dataset.size());
    if (recipe.data.cache != "none" && !(data.caches_bytes && keeps_remote_bytes(recipe.data))) {
        const auto size = [](const DatasetPtr& set) { return set == nullptr ? 0 : set->size(); };
        const auto all = static_cast<double>(size(data.train) + size(data.val));
        const double bytes = static_cast<double>(recipe.data.cache_bytes) * static_cast<double>(dataset.size()) / all;
        options.images =
            PixelImages{.cache = {.bytes = static_cast<std::int64_t>(bytes),
                                  .directory = recipe.data.cache == "disk" ? cache_dir(recipe.data, "samples") : ""},
                        .cache_encoded = recipe.data.cache_as == "encoded"};
    }
    options.jpeg_index = jpeg_index_of(recipe.data, data, dataset);
    return options;
}

// Those of [data.fields.NAME], with their own train_ops or val_ops.
std::vector<FieldOptions> field_options(const DataRecipe& recipe,
                                        std::optional<std::vector<OpSpec>> FieldRecipe::*ops) {
    std::vector<FieldOptions> all;
    for (const FieldRecipe& field : recipe.fields.more) {
        FieldOptions options{.name = field.name, .pad = field.pad, .classes = mask_classes(field.values)};
        if (const auto& own = field.*ops) {
            options.transform = std::make_shared<const Transform>(*own, transform_options(recipe));
        }
        all.push_back(std::move(options));
    }
    return all;
}

DatasetPtr joined(std::vector<DatasetPtr> datasets) {
    return datasets.size() == 1 ? datasets.front() : std::make_shared<ConcatDataset>(std::move(datasets));
}

constexpr std::string_view kMix = "data.mix";  // a list

// Opens the data set that `key` names. In a run's own recipe.toml, URLs lack their secrets.
std::unique_ptr<Dataset> open_named(std::string_view key, const std::string& name, Split split,
                                    const DataRecipe& recipe) {
    if (lacks_secrets(name)) {
        throw InvalidArgument(
            {.where = std::string(key),
             .expected = "the whole URL",
             .got = name,
             .hint = fmt::format("run folders keep no user names, passwords and queries of URLs: add "
                                 "--set {}",
                                 key == kMix ? "'data.mix=[\"URL\", ...]'" : fmt::format("{}=URL", key))});
    }
    OpenOptions options = open_options(recipe);
    options.validation = true;
    return open_dataset(name, split, options);
}

// The test splits of the training sets that have one; null if none has.
DatasetPtr open_test_splits(const DataRecipe& recipe) {
    std::vector<DatasetPtr> found;
    for (const std::string& name : training_sets(recipe)) {
        OpenOptions options = open_options(recipe);
        options.validation = true;
        if (has_splits(name, options.fields)) {
            found.push_back(clips_of(open_dataset(name, Split::test, options), recipe));
        }
    }
    return found.empty() ? nullptr : joined(std::move(found));
}

}  // namespace

void use_memory_limit(const DataRecipe& recipe) {
    if (recipe.memory > 0) {
        set_memory_limit(recipe.memory);
    }
}

DatasetPtr clips_of(DatasetPtr videos, const DataRecipe& recipe) {
    if (recipe.clips_per_video == 1) {
        return videos;
    }
    std::vector<std::int64_t> indices(static_cast<std::size_t>(videos->size() * recipe.clips_per_video));
    for (std::size_t i = 0; i < indices.size(); ++i) {
        indices[i] = static_cast<std::int64_t>(i) / recipe.clips_per_video;
    }
    return std::make_shared<Subset>(std::move(videos), std::move(indices));
}

ClipOptions clip_options(const DataRecipe& recipe, const RecipeData& data, bool random) {
    return {.frames = recipe.frames,
            .stride = recipe.stride,
            .per_sample = data.clips_per_video,
            .random = random,
            .sample_rate = static_cast<int>(recipe.sample_rate),
            .seconds = recipe.seconds};
}

OpenOptions open_options(const DataRecipe& recipe) {
    OpenOptions options{.fields = {.image = recipe.fields.image,
                                   .label = recipe.fields.label,
                                   .clips = recipe.frames > 0 || recipe.fields.clips},
                        .context = recipe.context};
    for (const FieldRecipe& field : recipe.fields.more) {
        options.fields.more.push_back({.name = field.name,
                                       .from = field.from,
                                       .kind = field_kind_named(field.is),
                                       .any_length = field.pad.has_value() || field.name == recipe.bucket_by});
    }
    if (keeps_remote_bytes(recipe)) {
        options.remote.cache_dir = cache_dir(recipe, "remote");
        options.remote.cache_bytes = recipe.cache_bytes;
    }
    return options;
}

std::vector<std::string> training_sets(const DataRecipe& recipe) {
    std::vector<std::string> all = {recipe.train};
    all.insert(all.end(), recipe.mix.begin(), recipe.mix.end());
    return all;
}

std::vector<std::string> all_sets(const DataRecipe& recipe) {
    std::vector<std::string> all = training_sets(recipe);
    all.push_back(recipe.val);
    return all;
}

RecipeData open_train_data(const DataRecipe& recipe) {
    use_memory_limit(recipe);
    const std::optional<double> share = parse_share(recipe.val);
    RecipeData data{.train = nullptr, .val = nullptr, .clips_per_video = recipe.clips_per_video};
    std::vector<DatasetPtr> train;
    std::vector<DatasetPtr> val;
    for (const std::string& name : training_sets(recipe)) {
        DatasetPtr dataset = open_named(name == recipe.train ? "data.train" : kMix, name, Split::train, recipe);
        if (share) {  // each data set by its own keys, so the split does not depend on data.mix
            const SplitDatasets split = split_by_key(dataset, *share);
            dataset = split.rest;
            val.push_back(clips_of(split.share, recipe));
        }
        dataset = clips_of(std::move(dataset), recipe);
        data.train_parts.push_back(dataset->size());
        train.push_back(std::move(dataset));
    }
    data.train = joined(std::move(train));
    data.val = val.empty() ? nullptr : joined(std::move(val));
    return data;
}

RecipeData open_data(const DataRecipe& recipe) {
    RecipeData data = open_train_data(recipe);
    if (data.val == nullptr) {
        data.val = recipe.val.empty() ? open_test_splits(recipe)
                                      : clips_of(open_named("data.val", recipe.val, Split::test, recipe), recipe);
    }
    return data;
}

RecipeData with_val_share(const DataRecipe& recipe, RecipeData data) {
    if (data.val != nullptr || recipe.val.empty()) {
        return data;
    }
    const std::optional<double> share = parse_share(recipe.val);
    if (!share || data.train_parts.size() > 1) {
        throw InvalidArgument({.where = "data.val",
                               .expected = "a share of your own training data such as \"10%\", or none",
                               .got = shown_url(recipe.val),
                               .hint = "open_data(recipe.data) opens what the recipe names; RecipeData::val takes a "
                                       "data set of your own"});
    }
    const SplitDatasets split = split_by_key(data.train, *share);
    data.train = split.rest;
    data.val = split.share;
    if (!data.train_parts.empty()) {
        data.train_parts = {split.rest->size()};
    }
    return data;
}

RecipeData open_val_data(const DataRecipe& recipe) {
    use_memory_limit(recipe);
    if (parse_share(recipe.val)) {
        return open_data(recipe);
    }
    if (!recipe.val.empty()) {
        return {.train = nullptr,
                .val = clips_of(open_named("data.val", recipe.val, Split::test, recipe), recipe),
                .clips_per_video = recipe.clips_per_video};
    }
    if (DatasetPtr splits = open_test_splits(recipe)) {
        return {.train = nullptr, .val = std::move(splits), .clips_per_video = recipe.clips_per_video};
    }
    open_train_data(recipe);  // throws for missing data, the more likely mistake
    throw InvalidArgument({.where = "data.val",
                           .expected = "validation data",
                           .got = "none",
                           .hint = "set data.val to a data set or to a share of train such as \"10%\""});
}

namespace {

// data.bucket_by = "image": batches of images to which aspect_crop gives one size.
void use_aspect_buckets(const DataRecipe& recipe, const std::vector<OpSpec>& ops, const char* key,
                        const Dataset& dataset, LoaderOptions& options) {
    if (!dataset.has_image() || options.clips.frames > 0 || options.clips.sample_rate > 0) {
        throw InvalidArgument({.where = "data.bucket_by",
                               .expected = "images for \"image\"",
                               .got = fmt::format("other samples in {}", dataset.path())});
    }
    const Transform transform(ops, transform_options(recipe));
    const AspectCropOp* const op = find_aspect_crop(transform.ops());
    if (op == nullptr) {
        throw InvalidArgument({.where = key,
                               .expected = "one aspect_crop and no other op that sets a size, as data.bucket_by needs",
                               .got = gives_one_size(transform.ops()) ? "another crop or resize" : "none"});
    }
    options.bucket_sizes = op->sizes;
    options.buckets = std::make_shared<const BucketSampler>(aspect_buckets(dataset, transform, *op),
                                                            BucketOptions{.batch_size = recipe.batch_size,
                                                                          .exact = true,
                                                                          .seed = options.seed,
                                                                          .shuffle = options.shuffle,
                                                                          .drop_last = options.drop_last});
    options.bucket_by = recipe.bucket_by;
    options.batch_size = options.buckets->most_samples();
}

// data.bucket_by: batches of samples of similar length. `may_be_plain`: images that the ops give one size need none.
void use_buckets(const DataRecipe& recipe, const std::vector<OpSpec>& ops, const Dataset& dataset, bool may_be_plain,
                 LoaderOptions& options) {
    if (recipe.bucket_by == kImageField) {
        const std::vector<Op> made = make_ops(ops);
        if (may_be_plain && gives_one_size(made) && find_aspect_crop(made) == nullptr) {
            return;
        }
        return use_aspect_buckets(recipe, ops, may_be_plain ? "data.val_ops" : "data.train_ops", dataset, options);
    }
    if (recipe.bucket_by.empty()) {
        const std::vector<Op> made = make_ops(ops);
        if (find_aspect_crop(made) != nullptr && !gives_one_size(made)) {
            throw InvalidArgument({.where = "data.bucket_by",
                                   .expected = "\"image\" for the sizes of aspect_crop",
                                   .got = "none",
                                   .hint = "it makes batches of images of one size"});
        }
        return;
    }
    const std::span<const Field> fields = dataset.fields();
    const auto field = std::ranges::find(fields, recipe.bucket_by, &Field::name);
    if (field == fields.end() || !field->any_length()) {
        throw InvalidArgument(
            {.where = "data.bucket_by",
             .expected = fmt::format("a field of any length in {}, or \"image\"", dataset.path()),
             .got = fmt::format("\"{}\", and the fields {}", recipe.bucket_by, describe_fields(fields))});
    }
    const auto own = std::ranges::find(options.fields, recipe.bucket_by, &FieldOptions::name);
    const std::vector<std::int64_t> lengths = lengths_of(dataset, static_cast<std::size_t>(field - fields.begin()));
    options.buckets = std::make_shared<const BucketSampler>(
        lengths, BucketOptions{.batch_size = recipe.batch_size,
                               .batch_tokens = recipe.batch_tokens,
                               .most = own == options.fields.end() ? 0 : own->pad.value_or(0),
                               .seed = options.seed,
                               .shuffle = options.shuffle,
                               .drop_last = options.drop_last});
    options.bucket_by = recipe.bucket_by;
    options.batch_size = options.buckets->most_samples();
}

}  // namespace

LoaderOptions train_loader_options(const Recipe& recipe, const RecipeData& data) {
    LoaderOptions options = common_options(recipe, data, *data.train);
    options.sampler = train_sampler(recipe, data);
    options.bad_samples = recipe.data.bad_samples.of(options.sampler->size());
    options.epochs = recipe.train.epochs;
    options.shuffle = recipe.data.shuffle;
    options.drop_last = recipe.data.drop_last;
    options.views = static_cast<int>(recipe.data.views);
    options.clips = clip_options(recipe.data, data, recipe.data.shuffle);
    options.fields = field_options(recipe.data, &FieldRecipe::train_ops);
    use_buckets(recipe.data, recipe.data.train_ops, *data.train, /*may_be_plain=*/false, options);
    return options;
}

LoaderOptions val_loader_options(const Recipe& recipe, const RecipeData& data) {
    LoaderOptions options = common_options(recipe, data, *data.val);
    options.shuffle = false;
    options.epochs = 1;
    options.clips = clip_options(recipe.data, data, /*random=*/false);
    options.fields = field_options(recipe.data, &FieldRecipe::val_ops);
    use_buckets(recipe.data, recipe.data.val_ops, *data.val, /*may_be_plain=*/true, options);
    return options;
}

int auto_workers(bool on_gpu) {
    const int cores = cpu_cores().usable;
    return std::max(on_gpu ? cores - 1 : cores, 1);
}

}  // namespace stoker

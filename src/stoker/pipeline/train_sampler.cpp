// train_sampler: makes sampler groups from data sets or classes, and a window from the shards of remote data.
#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "stoker/base/error.h"
#include "stoker/formats/part_budget.h"
#include "stoker/pipeline/recipe_data.h"

namespace stoker {
namespace {

std::vector<SamplerGroup> by_dataset(const std::vector<double>& weights, const std::vector<std::int64_t>& parts) {
    if (weights.size() != parts.size()) {
        throw InvalidArgument({.where = "data.weights",
                               .expected = fmt::format("{} weights, one for each data set", parts.size()),
                               .got = fmt::to_string(weights.size())});
    }
    std::vector<SamplerGroup> groups;
    std::int64_t first = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        groups.push_back({.weight = weights[i], .first = first, .size = parts[i]});
        first += parts[i];
    }
    return groups;
}

std::int64_t label_of(const Dataset& dataset, std::int64_t index, Sample& sample) {
    if (const auto label = dataset.label(index)) {
        return *label;
    }
    sample.label = -1;
    dataset.read(index, sample);
    return sample.label;
}

// One group per class that has samples. Samples without a label, and damaged ones, are never drawn.
std::vector<SamplerGroup> by_class(const Dataset& dataset) {
    std::map<std::int64_t, SamplerGroup> classes;
    Sample sample;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        try {
            if (const std::int64_t label = label_of(dataset, i, sample); label >= 0) {
                classes[label].indices.push_back(i);
            }
        } catch (const DataError&) {
        } catch (const Unsupported&) {
        }
    }
    if (classes.empty()) {
        throw InvalidArgument({.where = "data.balance",
                               .expected = "samples with labels",
                               .got = fmt::format("no label in {}", dataset.path())});
    }
    std::vector<SamplerGroup> groups;
    for (auto& [label, group] : classes) {
        groups.push_back(std::move(group));
    }
    return groups;
}

std::int64_t auto_window(const Dataset& dataset, std::int64_t batch_size) {
    if (dataset.shard_sizes().empty()) {
        return 0;
    }
    const std::int64_t sample_bytes = std::max<std::int64_t>(dataset.bytes() / dataset.size(), 1);
    return std::max(kWindowBytes / sample_bytes, batch_size);
}

}  // namespace

std::shared_ptr<const Sampler> train_sampler(const Recipe& recipe, const RecipeData& data) {
    const DataRecipe& config = recipe.data;
    const Dataset& dataset = *data.train;
    SamplerOptions options{
        .size = dataset.size(), .seed = recipe.seed, .shuffle = config.shuffle, .epoch_samples = config.epoch_samples};
    if (config.balance) {
        options.groups = by_class(dataset);
    } else if (!config.weights.empty()) {
        options.groups = by_dataset(config.weights, data.train_parts);
    }
    const bool everywhere = !config.shuffle || !options.groups.empty() || config.epoch_samples != 0;
    options.window = config.shuffle_window.value_or(everywhere ? 0 : auto_window(dataset, config.batch_size));
    if (options.window > 0) {
        options.shards = dataset.shard_sizes();
    }
    return make_sampler(options);
}

}  // namespace stoker

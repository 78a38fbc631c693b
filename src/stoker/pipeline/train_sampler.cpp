// Turns datasets and classes into groups of an order, and a network's shards into a window.
#include "stoker/pipeline/train_sampler.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "stoker/base/error.h"

namespace stoker {
namespace {

// What shuffled shards may take to be read: half of what is kept of remote files in memory.
constexpr std::int64_t kWindowBytes = std::int64_t{128} << 20;

std::vector<SamplerGroup> by_source(const std::vector<double>& weights, const std::vector<std::int64_t>& parts) {
    if (weights.size() != parts.size()) {
        throw InvalidArgument({.where = "data.weights",
                               .expected = fmt::format("{} weights, for data.train and each of data.mix", parts.size()),
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

// One group a class that has samples. Samples without a class are never drawn.
std::vector<SamplerGroup> by_class(const Dataset& dataset) {
    std::map<std::int64_t, SamplerGroup> classes;
    Sample sample;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        try {
            if (const std::int64_t label = label_of(dataset, i, sample); label >= 0) {
                classes[label].indices.push_back(i);
            }
        } catch (const DataError&) {  // without a label it is of no class, and never drawn
        } catch (const Unsupported&) {
        }
    }
    if (classes.empty()) {
        throw InvalidArgument({.where = "data.balance",
                               .expected = "samples with labels",
                               .got = fmt::format("none in {}", dataset.path())});
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
    const DataRecipe& wanted = recipe.data;
    const Dataset& dataset = *data.train;
    SamplerOptions options{
        .size = dataset.size(), .seed = recipe.seed, .shuffle = wanted.shuffle, .epoch_samples = wanted.epoch_samples};
    if (wanted.balance) {
        options.groups = by_class(dataset);
    } else if (!wanted.weights.empty()) {
        options.groups = by_source(wanted.weights, data.train_parts);
    }
    const bool everywhere = !wanted.shuffle || !options.groups.empty() || wanted.epoch_samples != 0;
    options.window = wanted.shuffle_window.value_or(everywhere ? 0 : auto_window(dataset, wanted.batch_size));
    if (options.window > 0) {
        options.shards = dataset.shard_sizes();
    }
    return make_sampler(options);
}

}  // namespace stoker

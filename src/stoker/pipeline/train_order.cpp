// Turns sources and classes into groups of an order, and a network's shards into a window.
#include "stoker/pipeline/train_order.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "stoker/base/error.h"

namespace stoker {
namespace {

// What shuffled shards may take to be read: half of what is kept of remote files in memory.
constexpr std::int64_t kWindowBytes = std::int64_t{128} << 20;

std::vector<OrderGroup> by_source(const std::vector<double>& weights, const std::vector<std::int64_t>& parts) {
    if (weights.size() != parts.size()) {
        throw InvalidArgument({.where = "data.weights",
                               .expected = fmt::format("{} weights, for data.train and each of data.mix", parts.size()),
                               .got = fmt::to_string(weights.size())});
    }
    std::vector<OrderGroup> groups;
    std::int64_t first = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        groups.push_back({.weight = weights[i], .first = first, .size = parts[i]});
        first += parts[i];
    }
    return groups;
}

std::int64_t label_of(const Source& source, std::int64_t index, Sample& sample) {
    if (const auto label = source.label(index)) {
        return *label;
    }
    sample.label = -1;
    source.read(index, sample);
    return sample.label;
}

// One group a class that has samples. Samples without a class are never drawn.
std::vector<OrderGroup> by_class(const Source& source) {
    std::map<std::int64_t, OrderGroup> classes;
    Sample sample;
    for (std::int64_t i = 0; i < source.size(); ++i) {
        try {
            if (const std::int64_t label = label_of(source, i, sample); label >= 0) {
                classes[label].indices.push_back(i);
            }
        } catch (const DataError&) {  // without a label it is of no class, and never drawn
        } catch (const Unsupported&) {
        }
    }
    if (classes.empty()) {
        throw InvalidArgument({.where = "data.balance",
                               .expected = "samples with labels",
                               .got = fmt::format("none in {}", source.path())});
    }
    std::vector<OrderGroup> groups;
    for (auto& [label, group] : classes) {
        groups.push_back(std::move(group));
    }
    return groups;
}

std::int64_t auto_window(const Source& source, std::int64_t batch_size) {
    if (source.shard_sizes().empty()) {
        return 0;
    }
    const std::int64_t sample_bytes = std::max<std::int64_t>(source.bytes() / source.size(), 1);
    return std::max(kWindowBytes / sample_bytes, batch_size);
}

}  // namespace

std::shared_ptr<const Order> train_order(const Recipe& recipe, const DataSets& data) {
    const DataRecipe& wanted = recipe.data;
    const Source& source = *data.train;
    OrderOptions options{
        .size = source.size(), .seed = recipe.seed, .shuffle = wanted.shuffle, .epoch_samples = wanted.epoch_samples};
    if (wanted.balance) {
        options.groups = by_class(source);
    } else if (!wanted.weights.empty()) {
        options.groups = by_source(wanted.weights, data.train_parts);
    }
    const bool everywhere = !wanted.shuffle || !options.groups.empty() || wanted.epoch_samples != 0;
    options.window = wanted.shuffle_window.value_or(everywhere ? 0 : auto_window(source, wanted.batch_size));
    if (options.window > 0) {
        options.shards = source.shard_sizes();
    }
    return make_order(options);
}

}  // namespace stoker

// Arithmetic on positions; the sampler does the shuffling.
#include "stoker/pipeline/sampling/batch_sampler.h"

#include <algorithm>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/base/pluralize.h"

namespace stoker {

BatchSampler::BatchSampler(const BatchSamplerOptions& options) : options_(options) {
    const auto require = [](bool holds, const char* where, const std::string& expected, std::int64_t got) {
        if (!holds) {
            throw InvalidArgument({.where = where, .expected = expected, .got = fmt::to_string(got)});
        }
    };
    require(options.size >= 1, "data", "a data set of at least one sample", options.size);
    require(options.batch_size >= 1, "data.batch_size", "at least 1", options.batch_size);
    require(options.world_size >= 1, "ranks", "at least 1", options.world_size);
    require(options.rank >= 0 && options.rank < options.world_size, "ranks",
            fmt::format("a rank from 0 to {}", options.world_size - 1), options.rank);
    if (!options.begins.empty()) {
        return;
    }
    require(options.batch_size % options.world_size == 0, "data.batch_size",
            fmt::format("a multiple of the {} ranks", options.world_size), options.batch_size);
    if (options.drop_last && options.size < options.batch_size) {
        throw InvalidArgument(
            {.where = "data.drop_last",
             .expected = fmt::format("at least one full batch of {} samples", options.batch_size),
             .got = fmt::format("{} an epoch", pluralize(options.size, "sample")),
             .hint = "lower data.batch_size, or set data.drop_last = false to train on a smaller batch"});
    }
}

std::int64_t BatchSampler::batches() const {
    if (!options_.begins.empty()) {
        return std::ssize(options_.begins) - 1;
    }
    const std::int64_t full = options_.size / options_.batch_size;
    return options_.drop_last || full * options_.batch_size == options_.size ? full : full + 1;
}

std::int64_t BatchSampler::max_slice() const {
    const std::int64_t most = std::min(options_.batch_size, options_.size);
    return (most - 1) / options_.world_size + 1;
}

std::int64_t BatchSampler::samples(std::int64_t batch) const {
    if (!options_.begins.empty()) {
        const std::int64_t* begin = options_.begins.data() + batch;
        return begin[1] - begin[0];
    }
    return std::min(options_.batch_size, options_.size - batch * options_.batch_size);
}

std::int64_t BatchSampler::smallest() const {
    std::int64_t least = samples(batches() - 1);
    for (std::int64_t batch = 0; batch < std::ssize(options_.begins) - 1; ++batch) {
        least = std::min(least, samples(batch));
    }
    return least;
}

BatchSlice BatchSampler::slice(std::int64_t batch) const {
    const std::int64_t first =
        options_.begins.empty() ? batch * options_.batch_size : options_.begins[static_cast<std::size_t>(batch)];
    const std::int64_t count = samples(batch);
    const std::int64_t begin = count * options_.rank / options_.world_size;
    const std::int64_t end = count * (options_.rank + 1) / options_.world_size;
    return {first + begin, end - begin};
}

RankNeighbours BatchSampler::neighbours(std::int64_t batch) const {
    const std::int64_t count = samples(batch);
    const int ranks = options_.world_size;
    const auto empty = [&](int rank) { return count * rank / ranks == count * (rank + 1) / ranks; };
    RankNeighbours found{.before = options_.rank, .after = options_.rank};
    do {
        found.before = (found.before + ranks - 1) % ranks;
    } while (empty(found.before));
    do {
        found.after = (found.after + 1) % ranks;
    } while (empty(found.after));
    return found;
}

}  // namespace stoker

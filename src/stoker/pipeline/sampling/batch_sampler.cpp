// Arithmetic on positions; the sampler does the shuffling.
#include "stoker/pipeline/sampling/batch_sampler.h"

#include <algorithm>
#include <fmt/format.h>

#include "stoker/base/error.h"

namespace stoker {

BatchSampler::BatchSampler(const BatchSamplerOptions& options) : options_(options) {
    const auto require = [](bool holds, const char* expected, std::int64_t got) {
        if (!holds) {
            throw InvalidArgument({.where = "batch sampler", .expected = expected, .got = fmt::to_string(got)});
        }
    };
    require(options.size >= 1, "a data set of at least one sample", options.size);
    require(options.batch_size >= 1, "batch_size of at least 1", options.batch_size);
    require(options.world_size >= 1, "world_size of at least 1", options.world_size);
    require(options.rank >= 0 && options.rank < options.world_size, "rank in [0, world_size)", options.rank);
    require(options.batch_size % options.world_size == 0, "a batch_size that is a multiple of the number of ranks",
            options.batch_size);
    require(!options.drop_last || options.size >= options.batch_size,
            "at least one full batch of samples, because drop_last drops the rest", options.size);
}

std::int64_t BatchSampler::batches() const {
    const std::int64_t full = options_.size / options_.batch_size;
    return options_.drop_last || full * options_.batch_size == options_.size ? full : full + 1;
}

std::int64_t BatchSampler::max_slice() const {
    const std::int64_t most = std::min(options_.batch_size, options_.size);
    return (most - 1) / options_.world_size + 1;
}

std::int64_t BatchSampler::samples(std::int64_t batch) const {
    return std::min(options_.batch_size, options_.size - batch * options_.batch_size);
}

BatchSlice BatchSampler::slice(std::int64_t batch) const {
    const std::int64_t first = batch * options_.batch_size;
    const std::int64_t count = samples(batch);
    const std::int64_t begin = count * options_.rank / options_.world_size;
    const std::int64_t end = count * (options_.rank + 1) / options_.world_size;
    return {first + begin, end - begin};
}

}  // namespace stoker

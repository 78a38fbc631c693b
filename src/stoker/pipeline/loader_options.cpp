#include "stoker/pipeline/loader_options.h"

#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/pipeline/loader_state.h"

namespace stoker {

std::shared_ptr<const Sampler> sampler_of(const LoaderOptions& options, std::int64_t samples) {
    return options.sampler != nullptr
               ? options.sampler
               : make_sampler({.size = samples, .seed = options.seed, .shuffle = options.shuffle});
}

BatchSamplerOptions batches_of(const LoaderOptions& options, const Sampler& sampler) {
    return {.size = sampler.size(),
            .batch_size = options.batch_size,
            .drop_last = options.drop_last,
            .rank = options.rank,
            .world_size = options.world_size};
}

void require_valid(const LoaderOptions& options, const Sampler& sampler, std::int64_t samples) {
    if (options.epochs < 0 || options.epochs > kMaxEpochs) {
        throw InvalidArgument({.where = "train.epochs",
                               .expected = fmt::format("0 (unlimited) to {}", kMaxEpochs),
                               .got = fmt::to_string(options.epochs)});
    }
    if (sampler.samples() != samples || sampler.seed() != options.seed) {
        throw InvalidArgument({.where = "loader",
                               .expected = fmt::format("a sampler of {} samples and seed {}", samples, options.seed),
                               .got = fmt::format("one of {} and seed {}", sampler.samples(), sampler.seed())});
    }
}

}  // namespace stoker

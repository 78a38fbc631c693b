// Shared by the samplers; internal to sampling/. A sampler goes through a set in passes, and passes continue over the
// epochs: the position of one draw in them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "stoker/pipeline/sampling/sampler.h"

namespace stoker {

struct PassPosition {
    std::uint64_t pass = 0;
    std::int64_t position = 0;  // in the pass
};

// The position of draw number `draw` of an epoch with `per_epoch` draws from `size` samples. Epochs are below 2^32 and
// sizes below 2^62, so the product needs more than 64 bits.
inline PassPosition pass_position(std::int64_t epoch, std::int64_t per_epoch, std::int64_t draw, std::int64_t size) {
    __extension__ using Wide = unsigned __int128;
    const Wide all = Wide(epoch) * Wide(per_epoch) + Wide(draw);
    return {static_cast<std::uint64_t>(all / Wide(size)), static_cast<std::int64_t>(all % Wide(size))};
}

// The place in [0, size) that is tried in place of `place`, which is bad; empty if `attempt` is not in [0, size). One
// attempt maps different places to different ones, and the attempts of a place reach every other. (seed, epoch, part)
// gives the order in which they are tried; `part` is below 2^44.
std::optional<std::int64_t> substitute_place(std::int64_t size, std::int64_t place, std::int64_t attempt,
                                             std::uint64_t seed, std::uint64_t epoch, std::uint64_t part);

// Throws InvalidArgument if `drawn` draws from `size` samples need more than the 16 bits of an occurrence.
void check_occurrences(std::int64_t drawn, std::int64_t size);

// For make_sampler. Throw InvalidArgument; see their .cpp files.
std::shared_ptr<const Sampler> make_weighted_sampler(const SamplerOptions& options);
std::shared_ptr<const Sampler> make_windowed_sampler(const SamplerOptions& options);

}  // namespace stoker

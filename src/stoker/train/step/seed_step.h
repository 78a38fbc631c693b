// Random numbers of a model that are the same in a run that was resumed.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace stoker {

// Seeds LibTorch's default generators, the device's and the host's, before step number `step` (from 0): a model's draws
// there, as for dropout, are then a function of seed, step and `slice`, the rank's part of the batch.
void seed_step(std::uint64_t seed, std::int64_t step, const c10::Device& device, int slice = 0);

}  // namespace stoker

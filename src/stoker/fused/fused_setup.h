// Checks options against the caller's memory, and makes the update rule of a step. Internal to fused/.
#pragma once

#include <cstdint>
#include <span>

#include "stoker/fused/fused_kernels.h"
#include "stoker/fused/fused_mlp.h"

namespace stoker {

// Throws InvalidArgument.
void check_options(const FusedMlpOptions& options, std::span<const FusedLayer> layers);

// `number` counts the optimiser's steps from 1.
UpdateRule rule_of(const FusedOptimizer& optimizer, double lr, std::int64_t number);

}  // namespace stoker

// How much the ranks send at once. Apart from the code that sends, so that the cost model needs no LibTorch.
#pragma once

#include <cstdint>

namespace stoker {

// Gradients are sent in buckets of DistributedDataParallel's sizes. The first is small, so that it is sent early.
inline constexpr std::int64_t kFirstBucketBytes = std::int64_t{1} << 20;
inline constexpr std::int64_t kBucketBytes = std::int64_t{25} << 20;

// What `ParameterShards` gathers at once, of all ranks together.
inline constexpr std::int64_t kGatherBytes = std::int64_t{32} << 20;

}  // namespace stoker

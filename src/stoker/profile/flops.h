// Floating-point operations of a profile's ops: LibTorch's count if it has one, and ours for the ops that it leaves
// out. A multiply and an add are two.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stoker/profile/event_tree.h"
#include "stoker/profile/profile.h"

namespace stoker {

// The count for a convolution of `input` (N, C, ...) with `weight` (out, C / groups, k...). Each of the other three has
// a number for each dimension of an image, or one for all. 0 for sizes that do not fit together.
std::uint64_t convolution_flops(std::span<const std::int64_t> input, std::span<const std::int64_t> weight,
                                std::span<const std::int64_t> stride, std::span<const std::int64_t> padding,
                                std::span<const std::int64_t> dilation);

// The count for a transposed one of `input` (N, in, ...) with `weight` (in, out / groups, k...): each weight of an
// input channel meets each position of the input.
std::uint64_t transposed_convolution_flops(std::span<const std::int64_t> input, std::span<const std::int64_t> weight);

// The count for the op with these inputs, from its name and shapes, if LibTorch does not count it: the gradients of a
// convolution, and attention with its gradients. 0 for all others, and without shapes.
std::uint64_t counted_flops(const ProfileEvent& event);

// By node. An op within one that has a count has none, so that the sum over all nodes counts everything once.
std::vector<std::uint64_t> flops_of(const Profile& profile, std::span<const EventNode> nodes);

}  // namespace stoker

// Tensor parallelism (Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model
// Parallelism", 2019): ranks hold slices of one model's layers. A column-parallel layer divides its outputs, the
// row-parallel layer after it its inputs, and one sum over the ranks completes the pair.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "stoker/models/sync_batch_norm.h"

namespace stoker {

// The ranks that share one model, seen from one of them.
struct TensorRanks {
    int rank = 0;
    int size = 1;
    SumOverRanks sum = nullptr;
};

// A parameter that is divided among the ranks. Along `dim` it consists of `blocks` equal blocks, such as the weights of
// queries, keys and values, and each rank has an equal part of every block.
struct DividedParameter {
    std::string name;
    std::int64_t dim = 0;
    std::int64_t blocks = 1;
};

// A rank's slice, as a new contiguous tensor.
at::Tensor slice_of(const at::Tensor& whole, const DividedParameter& parameter, int rank, int size);
// The whole parameter, from the ranks' slices in order.
at::Tensor join_slices(const std::vector<at::Tensor>& slices, const DividedParameter& parameter);

// The input of a column-parallel layer: itself; its gradient is summed over the ranks (Megatron's f).
at::Tensor to_all_ranks(const at::Tensor& x, const TensorRanks& ranks);
// The output of a row-parallel layer: the sum over the ranks; its gradient is passed on (Megatron's g).
at::Tensor sum_of_ranks(const at::Tensor& x, const TensorRanks& ranks);

// at::linear as a pair's second layer, with a slice of the weight (out, in / ranks) and the whole bias, which is added
// once. `ranks` null: at::linear.
at::Tensor row_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const TensorRanks* ranks);

}  // namespace stoker

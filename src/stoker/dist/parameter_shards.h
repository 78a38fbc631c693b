// The elements of all parameters divided among the ranks, evenly or as FlatParameters has them. ZeRO stage 1
// (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", 2020): a rank keeps the
// optimiser's state of its elements only, updates those, and sends their new values to all others.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "stoker/dist/group.h"

namespace stoker {

// Elements [begin, end) of a parameter, in the order of its memory.
struct ParameterPiece {
    std::size_t parameter = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

// Pieces begin at multiples of so many elements of their parameter, so that vector kernels round as they do on whole
// parameters.
inline constexpr std::int64_t kPieceAlignment = 64;

// A rank's pieces for each of `ranks`, given the parameters' numbers of elements.
std::vector<std::vector<ParameterPiece>> divide_parameters(std::span<const std::int64_t> sizes, int ranks);

// Elements of a tensor from `begin` on, in row-major order.
struct RowMajorPiece {
    std::size_t parameter = 0;
    std::int64_t begin = 0;
    at::Tensor values;  // (elements)
};

class ParameterShards {
  public:
    // `group` must outlive this object. Throws InvalidArgument for a parameter whose memory has gaps or overlaps.
    ParameterShards(const Group& group, const std::vector<at::Tensor>& parameters);
    // The same with other pieces than divide_parameters gives, of each rank.
    ParameterShards(const Group& group, const std::vector<at::Tensor>& parameters,
                    std::vector<std::vector<ParameterPiece>> pieces);

    const Group& group() const { return group_; }
    // This rank's.
    const std::vector<ParameterPiece>& own() const { return pieces_[static_cast<std::size_t>(group_.rank())]; }

    // A view (end - begin) of a tensor with the parameter's shape and strides.
    static at::Tensor part(const at::Tensor& whole, const ParameterPiece& piece);

    // `values`, of the shape of `parameter`, with its strides, so that both lie alike in memory.
    static at::Tensor laid_out_like(const at::Tensor& values, const at::Tensor& parameter);

    // `wholes`: tensors of the parameters' shapes, strides and type, one for each. Fills them on all ranks with the
    // owners' elements. All ranks must call it.
    void all_gather(const std::vector<at::Tensor>& wholes) const;
    // `own`: for each piece of this rank its elements. Returns tensors like the parameters on rank 0, with all ranks'
    // elements, and nothing on the others. All ranks must call it.
    std::vector<at::Tensor> gather(const std::vector<at::Tensor>& own) const;
    // The same elements in a file's order, each on one rank: the owner's if the parameter's memory is in row-major
    // order; all others are gathered on rank 0. All ranks must call it.
    std::vector<RowMajorPiece> in_row_major(const std::vector<at::Tensor>& own) const;

  private:
    std::int64_t longest_shard() const;      // elements
    std::int64_t gathered_elements() const;  // at once

    const Group& group_;
    std::vector<at::Tensor> like_;                     // without memory: shapes, strides and types of the parameters
    std::vector<std::vector<ParameterPiece>> pieces_;  // of each rank
};

}  // namespace stoker

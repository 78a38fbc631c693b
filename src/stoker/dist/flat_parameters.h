// Some parameters in one flat, padded buffer; each rank keeps a shard of it between uses. This is a parameter group of
// torch's fully_shard (FSDP2), with its terms. `unshard` gathers the buffer, and the parameters become views of it;
// `reshard` frees its memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "stoker/dist/group.h"
#include "stoker/dist/parameter_shards.h"

namespace stoker {

// Elements of a flat buffer of parameters with so many elements, a multiple of `ranks`. Each parameter begins at a
// multiple of kPieceAlignment, and so does each rank's shard.
std::int64_t flat_elements(std::span<const std::int64_t> sizes, int ranks);

class FlatParameters {
  public:
    // Moves the parameters, which are leaves of autograd of one type and the same values on all ranks, into shards.
    // They have no memory then. `group` must outlive this object. Throws InvalidArgument for a parameter with gaps in
    // memory.
    FlatParameters(const Group& group, const std::vector<at::Tensor>& parameters);
    FlatParameters(const FlatParameters&) = delete;
    FlatParameters& operator=(const FlatParameters&) = delete;
    ~FlatParameters() = default;

    const std::vector<at::Tensor>& parameters() const { return parameters_; }
    // (elements of the flat buffer / ranks): this rank's part of it.
    const at::Tensor& shard() const { return shard_; }
    // For each rank the pieces in its shard; `parameter` is a place in `parameters`.
    const std::vector<std::vector<ParameterPiece>>& pieces() const { return pieces_; }
    // This rank's pieces as views (end - begin) of a tensor like the shard.
    std::vector<at::Tensor> own_pieces(const at::Tensor& shard) const;
    // Those of the shard, for an optimiser; `finish_reduce` gives them gradients.
    const std::vector<at::Tensor>& own() const { return own_; }

    // All ranks call these in the same order. The parameters have values from `unshard` to `reshard`. `start_unshard`
    // begins to gather, and returns at once.
    void start_unshard();
    void unshard();
    void reshard();
    bool unsharded() const { return unsharded_; }

    // Takes the parameters' gradients, or zeros, and begins to average them over the ranks, in `type` if it is given.
    void start_reduce(bool zeros, std::optional<at::ScalarType> type);
    // Waits for them, and adds this rank's part to the gradients of `own`. Does nothing if none is under way.
    void finish_reduce();
    bool has_gradient() const { return gradient_.defined(); }
    void zero_grad();
    // After an error: waits for running operations, reshards, and forgets gradients.
    void abandon() noexcept;

  private:
    void set_memory(bool whole);
    void show(const std::vector<at::Tensor>& data);
    // A view with the shape and strides of a parameter.
    at::Tensor view_of(const at::Tensor& flat, std::size_t parameter) const;

    const Group& group_;
    std::vector<at::Tensor> parameters_;
    std::vector<std::int64_t> begins_;  // of the parameters in the flat buffer
    std::vector<std::vector<ParameterPiece>> pieces_;
    at::Tensor flat_;                 // (ranks * shard), without memory while it is resharded
    at::Tensor shard_;                // (shard)
    std::vector<at::Tensor> whole_;   // the parameters as views of `flat_`
    std::vector<at::Tensor> absent_;  // of their shapes, without memory
    std::vector<at::Tensor> own_;
    bool unsharded_ = false;
    std::function<void()> gathering_;  // waits; null if nothing is under way
    at::Tensor gradient_;              // (shard), of `own`
    at::Tensor reduced_;               // (shard), under way
    std::function<void()> reducing_;   // waits, and holds what is sent
};

}  // namespace stoker

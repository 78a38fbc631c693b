// Averages gradients over the ranks while the backward pass runs, with c10d's Reducer: hooks on the parameters fill
// buckets as gradients arrive, and each full bucket is reduced at once.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "stoker/dist/group.h"

namespace c10d {
class Reducer;
}

namespace stoker {

// Throws InvalidArgument, on all ranks, if the parameters' number or shapes differ from rank 0's. All ranks must call
// it.
void require_same_parameters(const Group& group, const std::vector<at::Tensor>& parameters);

class GradientReducer {
  public:
    // `parameters` are the trained ones; every backward pass must reach each of them. Throws InvalidArgument if their
    // number or shapes differ from rank 0's. `group` must outlive this object and have more than one rank.
    // `compressed`: bf16 or fp16, in which gradients are sent and added up (DDP's bf16_compress_hook and
    // fp16_compress_hook); they stay equal on all ranks.
    GradientReducer(const Group& group, const std::vector<at::Tensor>& parameters,
                    std::optional<at::ScalarType> compressed = std::nullopt);

    // Call before a backward pass whose accumulated gradients are averaged over all ranks. Without it a pass
    // accumulates locally, as under DDP's no_sync.
    void prepare();
    // A backward pass of zeros, reduced: for a rank without samples while others have some.
    void reduce_zeros();
    // Whether the last backward pass reached every parameter. If not, the gradients were not averaged. If so, waits
    // until their all-reduces over Gloo have ended.
    bool complete() const;  // NOLINT(modernize-use-nodiscard): also called to wait

    struct Works;

  private:
    const Group& group_;
    std::vector<at::Tensor> parameters_;
    std::shared_ptr<Works> works_;  // all-reduces of the last pass over Gloo
    std::shared_ptr<c10d::Reducer> reducer_;
};

}  // namespace stoker

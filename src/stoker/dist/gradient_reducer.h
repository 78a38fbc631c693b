// Averages gradients over the ranks while the backward pass still runs: c10d's Reducer, which has hooks on the
// parameters, fills buckets as gradients come, and sends each as it is full.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "stoker/dist/group.h"

namespace c10d {
class Reducer;
}

namespace stoker {

class GradientReducer {
  public:
    // `parameters` are those that are trained, each of which every backward pass must reach. Throws InvalidArgument
    // where they differ in number or shape from rank 0's. `group` must outlive this and have more than one rank.
    GradientReducer(const Group& group, const std::vector<at::Tensor>& parameters);

    // Before a backward pass: the gradients that it leaves, with those of passes before it, are the mean over all
    // ranks. A pass without this before it stays this rank's own.
    void prepare();
    // Whether that pass has reached every parameter. If not, gradients are not those of all ranks.
    bool complete() const;

  private:
    const Group& group_;
    std::shared_ptr<c10d::Reducer> reducer_;
};

}  // namespace stoker

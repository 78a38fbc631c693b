// SGD, Adam and AdamW with torch.optim's semantics, through LibTorch's fused kernels: one call a step
// over all parameters, learning rate and step counts in tensors, nothing read back from the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "stoker/models/model.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

enum class OptimizerKernel {
    fused,
    single_tensor,  // one ATen call after the other for each parameter: the readable twin, and what stock LibTorch does
};

class Optimizer {
  public:
    Optimizer(const std::vector<NamedTensor>& parameters, const OptimizerRecipe& recipe,
              OptimizerKernel kernel = OptimizerKernel::fused);

    // Updates every parameter from its gradient. One without a gradient is left alone. `found_inf` (a float32 scalar on
    // the parameters' device; undefined: 0): where it is 1, nothing changes.
    void step(const at::Tensor& found_inf = {});
    // Those that are there.
    std::vector<at::Tensor> gradients() const;
    // Frees the gradients: the next backward pass writes instead of adding.
    void zero_grad();

    void set_lr(double lr);
    double lr() const { return lr_value_; }

    const OptimizerRecipe& recipe() const { return recipe_; }
    OptimizerKernel kernel() const { return kernel_; }

    // What `step` works on beside parameters and gradients.
    std::vector<at::Tensor> memory() const;
    // "exp_avg.<parameter>", "step.<parameter>" and so on: what a checkpoint keeps. The tensors are its own, not
    // copies.
    std::vector<NamedTensor> state() const;
    // Throws InvalidArgument where an entry is missing, has another shape, or is not of this optimiser.
    void load(const std::vector<NamedTensor>& state);

  private:
    bool is_adam() const { return recipe_.name != "sgd"; }
    void fused_step(const std::vector<std::size_t>& group, double weight_decay, const at::Tensor& found_inf);
    void single_tensor_step(std::size_t i, double weight_decay);

    const OptimizerRecipe recipe_;
    const OptimizerKernel kernel_;
    std::vector<NamedTensor> parameters_;
    std::vector<bool> decays_;
    std::vector<at::Tensor> first_;   // Adam: exp_avg; SGD: momentum_buffer
    std::vector<at::Tensor> second_;  // Adam: exp_avg_sq
    std::vector<at::Tensor> steps_;   // float32 scalars on the parameters' device
    double lr_value_;
    at::Tensor lr_;  // float32 scalar on the parameters' device
};

}  // namespace stoker

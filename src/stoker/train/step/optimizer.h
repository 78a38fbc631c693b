// SGD, Adam and AdamW with torch.optim's semantics, on LibTorch's fused kernels: one call a step for all parameters,
// learning rate and step counts in tensors, and nothing read back from the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "stoker/models/model.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

enum class OptimizerKernel {
    fused,
    single_tensor,  // separate ATen calls for each parameter, as in stock LibTorch; the readable reference
};

class Optimizer {
  public:
    Optimizer(const std::vector<NamedTensor>& parameters, const OptimizerRecipe& recipe,
              OptimizerKernel kernel = OptimizerKernel::fused);

    // Updates every parameter that has a gradient. `found_inf`: a float32 scalar on the parameters' device, where 1
    // skips the update; undefined: 0.
    void step(const at::Tensor& found_inf = {});
    // Of the parameters that have one.
    std::vector<at::Tensor> gradients() const;
    // Frees the gradients: the next backward pass writes instead of adding.
    void zero_grad();

    void set_lr(double lr);
    double lr() const { return lr_value_; }

    const OptimizerRecipe& recipe() const { return recipe_; }
    OptimizerKernel kernel() const { return kernel_; }

    // All tensors that `step` reads or writes besides parameters and gradients.
    std::vector<at::Tensor> tensors() const;
    // "exp_avg.<parameter>", "step.<parameter>" and so on, for a checkpoint. Not copies.
    std::vector<NamedTensor> state() const;
    // Throws InvalidArgument for an entry that is missing, has another shape, or belongs to another optimiser.
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

// SGD, Adam and AdamW with torch.optim's semantics, on LibTorch's fused kernels: one call a step for all parameters,
// learning rate and step counts in tensors, and nothing read back from the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "stoker/dist/parameter_shards.h"
#include "stoker/models/model.h"
#include "stoker/recipe/recipe.h"
#include "stoker/train/step/fully_sharded_model.h"
#include "stoker/train/step/state_parts.h"

namespace stoker {

enum class OptimizerKernel {
    fused,
    single_tensor,  // separate ATen calls for each parameter, as in stock LibTorch; the readable reference
};

// Throws InvalidArgument for a pattern of no_decay or lr_scales that matches none of a model's trained parameters.
void require_patterns(const std::vector<NamedTensor>& parameters, const OptimizerRecipe& recipe);
// For one stage of a model: without the patterns that only match parameters of other stages.
OptimizerRecipe stage_recipe(OptimizerRecipe recipe, const std::vector<NamedTensor>& parameters);

class Optimizer {
  public:
    // `shards`: the ranks of this group share the state and the updates (ZeRO stage 1); null: this rank has all.
    // `full`: `parameters` are all trained ones of this model, and the ranks have shards of them; it must outlive this
    // object.
    Optimizer(const std::vector<NamedTensor>& parameters, const OptimizerRecipe& recipe,
              OptimizerKernel kernel = OptimizerKernel::fused, const Group* shards = nullptr,
              FullyShardedModel* full = nullptr);

    // Updates every parameter that has a gradient. `found_inf`: a float32 scalar on the parameters' device, where 1
    // skips the update; undefined: 0. A sharded optimiser updates this rank's elements; then all ranks must call
    // `gather_parameters`, unless the parameters are sharded as well.
    void step(const at::Tensor& found_inf = {});
    // True where ranks share the state and the updates.
    bool sharded() const { return shards_.has_value(); }
    bool has_whole_parameters() const { return full_ == nullptr; }
    // Gives every rank the elements that the others have updated. All ranks must call it.
    void gather_parameters() const;
    // The gradients of the parameters, or of this rank's pieces of sharded ones, that have one.
    std::vector<at::Tensor> gradients() const;
    // Frees the gradients: the next backward pass writes instead of adding.
    void zero_grad();

    // The learning rate of the next steps.
    void set_lr(double lr);
    double lr() const { return lr_value_; }
    // The same as a float32 scalar on the parameters' device.
    const at::Tensor& lr_on_device() const { return rates_.front().lr; }

    const OptimizerRecipe& recipe() const { return recipe_; }
    OptimizerKernel kernel() const { return kernel_; }

    // All tensors of this rank that `step` reads or writes besides parameters and gradients.
    std::vector<at::Tensor> tensors() const;
    // "exp_avg.<parameter>", "step.<parameter>" and so on, for a checkpoint. Not copies. A sharded optimiser gathers
    // them on rank 0, in host memory, and the others get nothing; all ranks must call it.
    std::vector<NamedTensor> state() const;
    // The same of a sharded optimiser, without gathering what each rank can write. All ranks must call it.
    StateParts parts() const;
    // Takes this rank's part of a state. Throws InvalidArgument for an entry that is missing, has another shape, or
    // belongs to another optimiser.
    void load(const std::vector<NamedTensor>& state);

  private:
    // A parameter, or this rank's piece of it, with its state.
    struct Trained {
        std::size_t parameter;  // in parameters_
        std::optional<ParameterPiece> piece;
        at::Tensor first = {};   // Adam: exp_avg; SGD: momentum_buffer
        at::Tensor second = {};  // Adam: exp_avg_sq
        at::Tensor shard = {};   // of a sharded parameter: the piece itself, with its gradient
        // The piece of a tensor of the shape of the parameter `like`, or the whole of it.
        at::Tensor of(const at::Tensor& whole, const at::Tensor& like) const;
    };

    at::Tensor value(const Trained& trained) const;
    at::Tensor gradient(const Trained& trained) const;
    bool has_gradient(std::size_t parameter) const;
    bool is_adam() const { return recipe_.name != "sgd"; }
    bool has_first() const { return is_adam() || recipe_.momentum != 0; }
    std::string first_name(const std::string& parameter) const {
        return (is_adam() ? "exp_avg." : "momentum_buffer.") + parameter;
    }
    // The learning rate of some parameters: a factor of that of the others.
    struct Rate {
        double factor = 1;
        at::Tensor lr = {};  // float32 scalar on the parameters' device
    };
    // Parameters that one call of a fused kernel updates.
    struct Alike {
        std::size_t rate = 0;
        bool decays = true;
        std::vector<std::size_t> trained = {};  // in trained_
    };

    std::vector<Alike> alike() const;
    void fused_step(const Alike& group, const at::Tensor& found_inf);
    void single_tensor_step(const Trained& trained, const Alike& group);
    std::vector<at::Tensor> own(at::Tensor Trained::*member) const;
    std::vector<at::Tensor> whole(bool has, at::Tensor Trained::*member) const;
    void load_part(at::Tensor Trained::*member, std::size_t parameter, const at::Tensor& given);

    const OptimizerRecipe recipe_;
    const OptimizerKernel kernel_;
    std::vector<NamedTensor> parameters_;
    std::vector<bool> decays_;
    std::vector<std::size_t> rate_of_;  // of each parameter, in rates_
    FullyShardedModel* const full_;
    std::optional<ParameterShards> shards_;
    std::vector<Trained> trained_;   // with shards the pieces of this rank, else all parameters
    std::vector<at::Tensor> steps_;  // of all parameters: float32 scalars on their device
    double lr_value_;
    std::vector<Rate> rates_;  // the first has the factor 1
};

}  // namespace stoker

// A model: named parameters and buffers, and a forward pass. The names are those of PyTorch's state_dict, so weights
// can be exchanged with PyTorch through safetensors.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "stoker/base/tensor_view.h"
#include "stoker/bridge/device.h"
#include "stoker/fused/options.h"
#include "stoker/models/loss.h"
#include "stoker/models/model_block.h"
#include "stoker/models/sync_batch_norm.h"
#include "stoker/models/tensor_parallel.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

// A parameter or buffer under its name in PyTorch's state_dict.
struct NamedTensor {
    std::string name;
    at::Tensor tensor;
};

// Fully connected layers with one activation between them.
struct LinearChain {
    struct Layer {
        at::Tensor weight;  // (out, in)
        at::Tensor bias;    // (out)
    };
    std::vector<Layer> layers;
    Activation activation = Activation::relu;
};

// Derive from it for a model with its own forward pass, or wrap a torch::nn::Module (torch_module.h). The constructor
// registers each tensor by `parameter` or `buffer`.
class Model {
  public:
    Model() = default;
    Model(const Model&) = delete;
    Model& operator=(const Model&) = delete;
    virtual ~Model() = default;

    // Images (N, C, H, W) float32, clips (N, T, C, H, W), or tokens (N, T) int64, to float outputs: (N, K), such as the
    // logits of K classes; for pixels (N, K, H, W), for tokens (N, T, K).
    virtual at::Tensor forward(const at::Tensor& input) = 0;

    // The fields of a batch that the model takes, in order, for a model of several inputs: two images, or an image and
    // numbers. The first may have any name and is then the batch's `input`. Empty: `input` alone.
    virtual std::vector<std::string> inputs() const { return {}; }
    // The outputs for a batch. A model of several inputs overrides it, and looks them up by name (DeviceBatch::field).
    virtual at::Tensor outputs(const DeviceBatch& batch) { return forward(batch.input); }

    // The mean loss of a batch, a scalar (compute_loss). A model that computes another loss ignores the options.
    virtual at::Tensor loss(const DeviceBatch& batch, const LossOptions& options = {});
    // Adds the gradients of the last `loss`, times `gradient` (a scalar on its device; undefined: 1), to the
    // parameters' grad. Uses autograd; a model that computes its own gradients overrides `loss` and `backward`.
    virtual void backward(const at::Tensor& loss, const at::Tensor& gradient = {});
    // Throws Unsupported if `backward` does not use autograd, whose hooks average gradients over several ranks.
    virtual void require_autograd() const {}

    // The layers, if the model consists of nothing else; its step can then run fused.
    virtual const LinearChain* linear_chain() const { return nullptr; }

    // True if a layer that autocast runs in bf16 or fp16 is all that reads the input, so that a step may give it the
    // input in that type.
    virtual bool casts_input() const { return false; }

    // True for convolutional models, which run faster on channels-last images.
    virtual bool wants_channels_last() const { return false; }

    // True for models that support gradient checkpointing (gradient_checkpointing.h).
    virtual bool can_recompute() const { return false; }
    // Trades time for memory in all later steps. Throws InvalidArgument for a model that cannot recompute.
    void enable_gradient_checkpointing();
    bool gradient_checkpointing() const { return gradient_checkpointing_; }

    // True for models whose batch norm `sync_batch_norm` reaches.
    virtual bool has_batch_norm() const { return false; }
    // Batch norm uses the statistics of all ranks' batches from now on (sync_batch_norm.h).
    void sync_batch_norm(SumOverRanks sum) { sum_over_ranks_ = std::move(sum); }

    // The parameters that would be divided, a slice for each of `ranks` ranks (tensor_parallel.h). Throws
    // InvalidArgument for a model that cannot be divided, or whose sizes do not divide.
    virtual std::vector<DividedParameter> division(int ranks) const;
    // Keeps the slices of `ranks.rank`; the ranks make all later passes together, with the same inputs.
    void divide(const TensorRanks& ranks);
    // The parameters that are divided: this rank has a slice of each. Empty for a whole model.
    const std::vector<DividedParameter>& divided() const { return divided_; }

    // The model as a sequence of blocks: the first takes `DeviceBatch::input`, and the last gives the outputs. Empty
    // for a model that is not a sequence, or that overrides `loss`: the loss of blocks is compute_loss.
    virtual std::vector<ModelBlock> blocks() const { return {}; }
    // Keeps blocks [first, last), a stage of the model, and frees the tensors of the others. From then on
    // `forward_stage` is the only pass. After `divide`, if at all.
    void keep_blocks(std::size_t first, std::size_t last);
    bool is_stage() const { return !stage_.empty(); }
    // The stage's output for the output of the block before, or for the model's input.
    at::Tensor forward_stage(const at::Tensor& input) const;
    // The names of `state`, of the whole model if this is a stage of it.
    std::vector<std::string> whole_state_names() const;

    // Sets training mode (the default) or evaluation mode, which differ for batch norm and dropout.
    virtual void train(bool training) { training_ = training; }
    bool training() const { return training_; }

    // In the order of PyTorch's state_dict. The tensors share the model's memory.
    const std::vector<NamedTensor>& parameters() const { return parameters_; }
    const std::vector<NamedTensor>& buffers() const { return buffers_; }
    std::vector<NamedTensor> state() const;  // parameters, then buffers
    // Further names of tied weights, which are listed once, under their first name.
    const std::vector<std::string>& tied_names() const { return tied_names_; }

    // Tensors that a pass reads besides these, such as the constants of a file. They move with the model.
    virtual std::vector<at::Tensor> constants() const { return {}; }

    // Moves everything to `device`, and tensors of four and five sides to channels-last memory if `channels_last`. The
    // tensor objects stay the same, so an optimiser that holds them stays valid.
    void to(const at::Device& device, bool channels_last);

    // Copies values by name and ignores further names of tied weights. Throws InvalidArgument, with `where` as the
    // origin of the values, if a name is missing or unknown or a shape differs.
    void load(const std::vector<NamedTensor>& state, const std::string& where = "model weights");
    // As `load`, from a model that may have another number of classes, or no last layer: if only the layer with one
    // output per class differs, it keeps its values, and the names of its parameters are returned. Prefixes of
    // PyTorch's wrappers are removed. Throws InvalidArgument also for weights that are not finite.
    std::vector<std::string> load_pretrained(std::vector<NamedTensor> state, std::int64_t classes,
                                             const std::string& where = "model weights");

    // Renames the tensors of another kind of model, and removes those that this one lacks. Returns the names in this
    // model's state for which such a model has none.
    virtual std::vector<std::string> adapt(std::vector<NamedTensor>&) const { return {}; }

    // Sets requires_grad to false for parameters whose names match one of `patterns` (name_pattern.h). Throws
    // InvalidArgument for a pattern without a match, and if no trainable parameter is left.
    void freeze(const std::vector<std::string>& patterns);
    // The parameters that require gradients.
    std::vector<NamedTensor> trainable_parameters() const;

  protected:
    // Null without sync_batch_norm.
    const SumOverRanks* sum_over_ranks() const { return sum_over_ranks_ ? &sum_over_ranks_ : nullptr; }

    // Null for a whole model.
    const TensorRanks* tensor_ranks() const { return divided_.empty() ? nullptr : &tensor_ranks_; }

    // Both register a tensor. One that is registered again under another name (tied weights) keeps its first name.
    at::Tensor parameter(const std::string& name, at::Tensor value);
    at::Tensor buffer(const std::string& name, at::Tensor value);

  private:
    void add(std::vector<NamedTensor>& list, const std::string& name, const at::Tensor& value);

    std::vector<NamedTensor> parameters_;
    std::vector<NamedTensor> buffers_;
    std::vector<std::string> tied_names_;
    bool training_ = true;
    bool gradient_checkpointing_ = false;
    SumOverRanks sum_over_ranks_;
    std::vector<DividedParameter> divided_;
    TensorRanks tensor_ranks_;
    std::vector<ModelBlock> stage_;  // that `keep_blocks` kept
    std::vector<std::string> whole_state_names_;
};

// The tensors of a batch that a model with the inputs `names` takes (Model::inputs); for no names `input` alone.
std::vector<at::Tensor> named_inputs(const DeviceBatch& batch, const std::vector<std::string>& names);

// The model for messages: its file, or its name, for a ResNet with the stem that it has for images `input`, (C, H, W).
std::string model_label(const ModelRecipe& recipe, const Shape& input);

// True for a built-in model whose outputs are a class for each pixel, (N, K, H, W).
bool gives_pixels(const ModelRecipe& recipe);

// `input` is (C, H, W) of one sample, of clips (T, C, H, W). The initial weights depend on `seed` alone and are
// distributed as in torch.nn and torchvision. The weights are on the host; `device` is where the model will run
// (Model::to). Throws InvalidArgument for an unknown name, and the errors of the model's constructor.
std::unique_ptr<Model> make_model(const ModelRecipe& recipe, const Shape& input, std::int64_t classes,
                                  std::uint64_t seed, const at::Device& device = at::kCPU);

}  // namespace stoker

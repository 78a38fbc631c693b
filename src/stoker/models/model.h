// A model as the training engine sees it: named parameters and buffers, and a forward pass. The
// names are PyTorch's state-dict names, so weights travel both ways through safetensors.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stoker/base/tensor_view.h"
#include "stoker/fused/options.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

struct NamedTensor {
    std::string name;
    at::Tensor tensor;
};

struct LossOptions {
    double label_smoothing = 0;  // share of a label that is spread over all classes
    bool autograd = false;       // gradients come from autograd in any case: somebody has hooks there
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

class Model {
  public:
    Model() = default;
    Model(const Model&) = delete;
    Model& operator=(const Model&) = delete;
    virtual ~Model() = default;

    // (N, C, H, W) float32 to logits (N, classes) float32.
    virtual at::Tensor forward(const at::Tensor& input) = 0;

    // The mean cross entropy of logits against `label`, classes (N) int64 or shares (N, classes) float32, a scalar,
    // ready for `backward`.
    virtual at::Tensor loss(const at::Tensor& input, const at::Tensor& label, const LossOptions& options = {});
    // Adds the gradients of the last `loss`, times `gradient` (a scalar on its device; undefined: 1), to the
    // parameters' grad. Both are autograd's by default; a model that knows its own gradients may be faster.
    virtual void backward(const at::Tensor& loss, const at::Tensor& gradient = {});

    // What the model is, where it is nothing else: then its whole step may run fused.
    virtual const LinearChain* linear_chain() const { return nullptr; }

    // True for models of convolutions, which run faster on channels-last images.
    virtual bool wants_channels_last() const { return false; }

    // True for models of blocks whose activations the backward pass can compute again.
    virtual bool has_blocks() const { return false; }
    // From now on it does, which takes less memory and more time. Throws InvalidArgument for a model without blocks.
    void enable_gradient_checkpointing();
    bool gradient_checkpointing() const { return gradient_checkpointing_; }

    // Batch norm and the like behave differently in training (the default) and evaluation.
    virtual void train(bool training) { training_ = training; }
    bool training() const { return training_; }

    // In the order of PyTorch's state_dict. The tensors are the model's own, not copies.
    const std::vector<NamedTensor>& parameters() const { return parameters_; }
    const std::vector<NamedTensor>& buffers() const { return buffers_; }
    std::vector<NamedTensor> state() const;
    // Further names of tied weights.
    const std::vector<std::string>& tied() const { return tied_; }

    // Moves everything to `device`, four-dimensional parameters to channels-last memory if asked. The
    // tensors keep their identity, so an optimiser made before stays right.
    void to(const at::Device& device, bool channels_last);

    // Copies values in by name; further names of tied weights are passed over. Throws InvalidArgument, naming `where`
    // they come from, where a name is missing, a shape differs, or a name is given that the model does not have.
    void load(const std::vector<NamedTensor>& state, const std::string& where = "model weights");
    // The same from a model that may tell other classes apart: where nothing but their number differs, the layer that
    // has an output for each of our `classes` stays as it is. Gives the names of its tensors then. A prefix that
    // PyTorch's wrappers give to every name is taken off.
    std::vector<std::string> load_pretrained(std::vector<NamedTensor> state, std::int64_t classes,
                                             const std::string& where = "model weights");

    // Parameters whose names fit one of `patterns` (name_pattern.h) get no gradients any more. Throws InvalidArgument
    // for a pattern that fits none, and where none would be left to train.
    void freeze(const std::vector<std::string>& patterns);
    // The parameters that are not frozen.
    std::vector<NamedTensor> trained() const;

  protected:
    // A tensor that comes again under another name (tied weights) is the model's once, under the first.
    at::Tensor parameter(const std::string& name, at::Tensor value);
    at::Tensor buffer(const std::string& name, at::Tensor value);

  private:
    void add(std::vector<NamedTensor>& list, const std::string& name, const at::Tensor& value);

    std::vector<NamedTensor> parameters_;
    std::vector<NamedTensor> buffers_;
    std::vector<std::string> tied_;  // further names of the same tensors
    bool training_ = true;
    bool gradient_checkpointing_ = false;
};

// What a line calls it: its file, or its name, with the stem that `auto` comes to for images `input`, (C, H, W).
std::string model_label(const ModelRecipe& recipe, const Shape& input);

// `input` is (C, H, W) of one sample. The weights are a function of `seed` alone, by the
// initialisation that torch.nn and torchvision use. Throws InvalidArgument for an unknown name.
std::unique_ptr<Model> make_model(const ModelRecipe& recipe, const Shape& input, std::int64_t classes,
                                  std::uint64_t seed);

}  // namespace stoker

// Common parts of convolutional models: convolutions without bias followed by batch norm, blocks that support gradient
// checkpointing, and a classifier of global average pooling and a linear layer `fc`.
#pragma once

#include <string>
#include <vector>

#include "stoker/models/batch_norm_relu.h"
#include "stoker/models/gradient_checkpointing.h"
#include "stoker/models/model.h"

namespace stoker {

class ConvModel : public Model {
  public:
    bool wants_channels_last() const final { return true; }
    bool casts_input() const final { return true; }
    bool can_recompute() const final { return true; }
    bool has_batch_norm() const final { return true; }

  protected:
    struct ConvNorm {
        at::Tensor weight;  // (out, in, k, k), of clips (out, in, k, k, k)
        BatchNorm norm;
        Shape stride = {1};  // one for all sides, or one for each
        std::int64_t dilation = 1;
    };

    // Same padding; `conv` and `norm` are the names of the two layers. `kernel` has two sides, of clips three.
    ConvNorm conv_norm(const std::string& conv, const std::string& norm, std::int64_t in, std::int64_t out,
                       const Shape& kernel, const Shape& stride, at::Generator& generator);
    void add_classifier(std::int64_t width, std::int64_t classes, at::Generator& generator);
    void add_classifier(const at::Tensor& weight, const at::Tensor& bias);
    // The parameters from index `first` on.
    std::vector<at::Tensor> parameters_since(std::size_t first) const;

    // Increments num_batches_tracked in training. Call once per forward pass.
    void count_batch() const { count_batch(0, batch_counts_.size()); }
    // The same for the norms [first, last), in the order in which they were made.
    void count_batch(std::size_t first, std::size_t last) const;
    // The last of `blocks`.
    ModelBlock classifier_block() const;
    // What follows a layer's batch norm.
    struct After {
        bool relu = true;
        at::Tensor shortcut = {};  // added before relu
    };
    // `recompute` is true when gradient checkpointing runs the layer again: running statistics then stay unchanged.
    at::Tensor apply(const ConvNorm& layer, const at::Tensor& input, bool recompute, const After& after) const;
    // Runs a block, with gradient checkpointing if it is enabled.
    at::Tensor run_block(const BlockForward& block, const at::Tensor& input,
                         const std::vector<at::Tensor>& parameters) const;
    at::Tensor classify(const at::Tensor& features) const;

  private:
    std::vector<at::Tensor> batch_counts_;  // num_batches_tracked of all norms
    at::Tensor fc_weight_;                  // (classes, width)
    at::Tensor fc_bias_;
};

}  // namespace stoker

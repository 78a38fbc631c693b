// What convolutional models share: convolutions without bias, each with a batch norm after it, in blocks whose
// activations may be computed again, and at the end an average over the image and a linear layer `fc`.
#pragma once

#include <string>
#include <vector>

#include "stoker/models/gradient_checkpointing.h"
#include "stoker/models/model.h"

namespace stoker {

class ConvModel : public Model {
  public:
    bool wants_channels_last() const final { return true; }
    bool has_blocks() const final { return true; }

  protected:
    struct ConvNorm {
        at::Tensor weight;       // (out, in, k, k)
        at::Tensor gamma, beta;  // (out)
        at::Tensor mean, variance;
        std::int64_t stride = 1;
        std::int64_t padding = 0;
    };

    // Same padding; `conv` and `norm` are the names of the two layers.
    ConvNorm conv_norm(const std::string& conv, const std::string& norm, std::int64_t in, std::int64_t out,
                       std::int64_t kernel, std::int64_t stride, at::Generator& generator);
    void add_classifier(std::int64_t width, std::int64_t classes, at::Generator& generator);
    // Those added since there were `first`.
    std::vector<at::Tensor> parameters_since(std::size_t first) const;

    // Once for each forward pass.
    void count_batch();
    at::Tensor apply(const ConvNorm& layer, const at::Tensor& input, bool again) const;
    // `pass` by way of `gradient_checkpoint` where activations are not to be kept.
    at::Tensor run_block(const BlockPass& pass, const at::Tensor& input,
                         const std::vector<at::Tensor>& parameters) const;
    at::Tensor classify(const at::Tensor& features) const;

  private:
    std::vector<at::Tensor> batches_;  // num_batches_tracked of all norms
    at::Tensor fc_weight_;             // (classes, width)
    at::Tensor fc_bias_;
};

}  // namespace stoker

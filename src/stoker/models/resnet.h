// ResNet-18 (He et al., "Deep Residual Learning for Image Recognition", 2015) with torchvision's
// state-dict names. The CIFAR stem is a 3x3 convolution without pooling, for images up to 64 pixels.
#pragma once

#include <optional>
#include <vector>

#include "stoker/models/model.h"

namespace stoker {

enum class ResNetStem { imagenet, cifar };

class ResNet18 final : public Model {
  public:
    ResNet18(std::int64_t channels, std::int64_t classes, ResNetStem stem, at::Generator& generator);

    at::Tensor forward(const at::Tensor& input) override;
    bool wants_channels_last() const override { return true; }

  private:
    // A convolution without bias and the batch norm after it.
    struct ConvNorm {
        at::Tensor weight;  // (out, in, k, k)
        at::Tensor gamma, beta, mean, variance, batches;
        std::int64_t stride = 1;
        std::int64_t padding = 0;
    };
    struct Block {
        ConvNorm first;
        ConvNorm second;
        std::optional<ConvNorm> downsample;
    };

    ConvNorm conv_norm(const std::string& conv, const std::string& norm, std::int64_t in, std::int64_t out,
                       std::int64_t kernel, std::int64_t stride, at::Generator& generator);
    at::Tensor apply(const ConvNorm& layer, const at::Tensor& input) const;

    ResNetStem stem_;
    ConvNorm stem_layer_;
    std::vector<Block> blocks_;
    at::Tensor fc_weight_;  // (classes, 512)
    at::Tensor fc_bias_;
};

}  // namespace stoker

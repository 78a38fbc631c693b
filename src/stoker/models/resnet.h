// ResNet-18, -34 and -50 (He et al., "Deep Residual Learning for Image Recognition", 2015) with torchvision's
// state-dict names. The CIFAR stem, for images up to 64 pixels, is a 3x3 convolution without pooling.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "stoker/models/conv_model.h"

namespace stoker {

enum class ResNetStem { imagenet, cifar };
enum class ResNetBlock {
    basic,       // two 3x3 convolutions
    bottleneck,  // 1x1, 3x3, and 1x1 to four times the width; the stride is in the 3x3 one, as in torchvision
};

struct ResNetLayout {
    std::array<int, 4> depths;  // blocks in each stage
    ResNetBlock block = ResNetBlock::basic;
};

class ResNet final : public ConvModel {
  public:
    ResNet(const ResNetLayout& layout, std::int64_t channels, std::int64_t classes, ResNetStem stem,
           at::Generator& generator);

    at::Tensor forward(const at::Tensor& input) override;
    // The stem, the residual blocks and the classifier.
    std::vector<ModelBlock> blocks() const override;

  private:
    struct Block {
        std::string name;
        std::vector<ConvNorm> layers = {};
        std::optional<ConvNorm> downsample = {};
        std::vector<at::Tensor> parameters = {};
    };

    Block make_block(const std::string& name, ResNetBlock kind, std::int64_t in, std::int64_t width,
                     std::int64_t stride, at::Generator& generator);
    at::Tensor stem(const at::Tensor& input) const;
    at::Tensor run(const Block& block, const at::Tensor& input, bool recompute) const;
    at::Tensor recomputed(const Block& block, const at::Tensor& input) const;  // with gradient checkpointing

    ResNetStem stem_;
    ConvNorm stem_layer_;
    std::vector<Block> blocks_;
};

}  // namespace stoker

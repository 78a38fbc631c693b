// ResNet-18, -34 and -50 (He et al., "Deep Residual Learning for Image Recognition", 2015), a segmentation on one of
// them, and R3D-18 (Tran et al., "A Closer Look at Spatiotemporal Convolutions for Action Recognition", 2018), with
// torchvision's state-dict names. The CIFAR stem, for images up to 64 pixels, is a 3x3 convolution without pooling.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "stoker/models/conv_model.h"

namespace stoker {

enum class ResNetStem {
    imagenet,
    cifar,
    video,  // clips (N, T, C, H, W): all kernels have three sides, and names are those of torchvision's VideoResNet
};
enum class ResNetBlock {
    basic,       // two 3x3 convolutions
    bottleneck,  // 1x1, 3x3, and 1x1 to four times the width; the stride is in the 3x3 one, as in torchvision
};

struct ResNetLayout {
    std::array<int, 4> depths;  // blocks in each stage
    ResNetBlock block = ResNetBlock::basic;
};

// The stem and the residual blocks, from which a model makes its outputs.
class ResNetBody : public ConvModel {
  protected:
    struct BodyOptions {
        ResNetLayout layout;
        std::int64_t channels = 3;
        ResNetStem stem = ResNetStem::imagenet;
        std::string prefix = "";  // of all names
        bool dilated = false;     // the last two stages dilate their convolutions and keep the image's size
    };

    ResNetBody(const BodyOptions& options, at::Generator& generator);

    std::int64_t width() const;  // channels of the features
    at::Tensor features(const at::Tensor& input) const;
    std::vector<ModelBlock> body_blocks() const;

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
    Shape kernel(std::int64_t side) const { return Shape(stem_ == ResNetStem::video ? 3 : 2, side); }
    at::Tensor recomputed(const Block& block, const at::Tensor& input) const;  // with gradient checkpointing

    ResNetStem stem_;
    std::string prefix_;
    ConvNorm stem_layer_;
    std::vector<Block> blocks_;
};

class ResNet final : public ResNetBody {
  public:
    ResNet(const ResNetLayout& layout, std::int64_t channels, std::int64_t classes, ResNetStem stem,
           at::Generator& generator);

    at::Tensor forward(const at::Tensor& input) override;
    // The stem, the residual blocks and the classifier.
    std::vector<ModelBlock> blocks() const override;
};

// A class for each pixel: outputs (N, classes, H, W). The fully convolutional network of Long, Shelhamer and Darrell
// (2015) as torchvision's fcn_resnet50 has it, without the auxiliary classifier: a dilated ResNet's features at an
// eighth of the image's size, two convolutions, and bilinear interpolation.
class FcnResNet final : public ResNetBody {
  public:
    FcnResNet(const ResNetLayout& layout, std::int64_t channels, std::int64_t classes, at::Generator& generator);

    at::Tensor forward(const at::Tensor& input) override;
    // Takes the weights of a classifying ResNet, whose `fc` is left out, and leaves out an auxiliary classifier.
    std::vector<std::string> adapt(std::vector<NamedTensor>& given) const override;

  private:
    ConvNorm head_;
    at::Tensor weight_;  // (classes, width / 4, 1, 1)
    at::Tensor bias_;    // (classes)
};

}  // namespace stoker

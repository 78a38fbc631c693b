// A small VGG-style network (Simonyan and Zisserman, 2014) with batch norm, for images of 28 to 96 pixels: six 3x3
// convolutions (conv1 and bn1 to conv6 and bn6) in three stages, global average pooling and the linear layer fc.
#pragma once

#include <vector>

#include "stoker/models/conv_model.h"

namespace stoker {

class ConvNet final : public ConvModel {
  public:
    // Throws InvalidArgument if a side of the image is below kSmallestImage.
    ConvNet(std::int64_t channels, std::int64_t height, std::int64_t width, std::int64_t classes,
            at::Generator& generator);

    at::Tensor forward(const at::Tensor& input) override;
    // The three stages and the classifier.
    std::vector<ModelBlock> blocks() const override;

    static constexpr std::int64_t kSmallestImage = 4;  // pixels a side; one is left at the end

  private:
    struct Stage {
        std::vector<ConvNorm> layers;
        std::vector<at::Tensor> parameters;
    };
    at::Tensor run(const Stage& stage, const at::Tensor& input, bool recompute) const;
    at::Tensor recomputed(const Stage& stage, const at::Tensor& input) const;  // with gradient checkpointing

    std::vector<Stage> stages_;
};

}  // namespace stoker

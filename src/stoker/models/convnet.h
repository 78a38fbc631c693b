// A small network in the manner of VGG (Simonyan and Zisserman, 2014) with batch norm, for images of 28 to 96 pixels:
// six 3x3 convolutions, conv1 with bn1 to conv6 with bn6, in three stages, and fc over the average of the image.
#pragma once

#include <vector>

#include "stoker/models/conv_model.h"

namespace stoker {

class ConvNet final : public ConvModel {
  public:
    // Images are (channels, height, width). Throws InvalidArgument for a side below kSmallestImage.
    ConvNet(std::int64_t channels, std::int64_t height, std::int64_t width, std::int64_t classes,
            at::Generator& generator);

    at::Tensor forward(const at::Tensor& input) override;

    static constexpr std::int64_t kSmallestImage = 4;  // one pixel is left of it

  private:
    struct Stage {
        std::vector<ConvNorm> layers;
        std::vector<at::Tensor> parameters;
    };
    at::Tensor run(const Stage& stage, const at::Tensor& input, bool again) const;

    std::vector<Stage> stages_;
};

}  // namespace stoker

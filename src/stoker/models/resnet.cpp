// Four stages of two basic blocks; widths 64 to 512, each stage after the first halves the image.
#include "stoker/models/resnet.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/models/init.h"

namespace stoker {

ResNet18::ResNet18(std::int64_t channels, std::int64_t classes, ResNetStem stem, at::Generator& generator)
    : stem_(stem) {
    const bool imagenet = stem == ResNetStem::imagenet;
    stem_layer_ = conv_norm("conv1", "bn1", channels, 64, imagenet ? 7 : 3, imagenet ? 2 : 1, generator);
    std::int64_t in = 64;
    for (int stage = 0; stage < 4; ++stage) {
        const std::int64_t out = std::int64_t{64} << stage;
        for (int i = 0; i < 2; ++i) {
            const std::string name = fmt::format("layer{}.{}", stage + 1, i);
            const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
            Block block;
            block.first = conv_norm(name + ".conv1", name + ".bn1", in, out, 3, stride, generator);
            block.second = conv_norm(name + ".conv2", name + ".bn2", out, out, 3, 1, generator);
            if (stride != 1) {
                block.downsample =
                    conv_norm(name + ".downsample.0", name + ".downsample.1", in, out, 1, stride, generator);
            }
            blocks_.push_back(std::move(block));
            in = out;
        }
    }
    fc_weight_ = parameter("fc.weight", default_uniform({classes, in}, in, generator));
    fc_bias_ = parameter("fc.bias", default_uniform({classes}, in, generator));
}

ResNet18::ConvNorm ResNet18::conv_norm(const std::string& conv, const std::string& norm, std::int64_t in,
                                       std::int64_t out, std::int64_t kernel, std::int64_t stride,
                                       at::Generator& generator) {
    ConvNorm layer;
    layer.weight = parameter(conv + ".weight", kaiming_normal_fan_out({out, in, kernel, kernel}, generator));
    layer.gamma = parameter(norm + ".weight", at::ones({out}));
    layer.beta = parameter(norm + ".bias", at::zeros({out}));
    layer.mean = buffer(norm + ".running_mean", at::zeros({out}));
    layer.variance = buffer(norm + ".running_var", at::ones({out}));
    layer.batches = buffer(norm + ".num_batches_tracked", at::zeros({}, at::kLong));
    layer.stride = stride;
    layer.padding = kernel / 2;
    return layer;
}

at::Tensor ResNet18::apply(const ConvNorm& layer, const at::Tensor& input) const {
    const at::Tensor x = at::conv2d(input, layer.weight, {}, layer.stride, layer.padding);
    if (training() && x.numel() == x.size(1)) {
        // Its variance would be of one value: torch.nn refuses it too, ATen itself spoils the running one.
        throw InvalidArgument({.where = "resnet18",
                               .expected = "more than one value per channel in training",
                               .got = "a batch of one sample that is down to one pixel",
                               .hint = "set data.drop_last = true, another data.batch_size, or larger images"});
    }
    if (training()) {
        const c10::NoGradGuard no_grad;
        layer.batches.add_(1);
    }
    return at::batch_norm(x, layer.gamma, layer.beta, layer.mean, layer.variance, training(), /*momentum=*/0.1,
                          /*eps=*/1e-5, /*cudnn_enabled=*/true);
}

at::Tensor ResNet18::forward(const at::Tensor& input) {
    at::Tensor x = apply(stem_layer_, input).relu_();
    if (stem_ == ResNetStem::imagenet) {
        x = at::max_pool2d(x, 3, 2, 1);
    }
    for (const auto& block : blocks_) {
        at::Tensor y = apply(block.first, x).relu_();
        y = apply(block.second, y);
        const at::Tensor shortcut = block.downsample ? apply(*block.downsample, x) : x;
        x = y.add_(shortcut).relu_();
    }
    x = at::adaptive_avg_pool2d(x, {1, 1}).flatten(1);  // (N, 512)
    return at::linear(x, fc_weight_, fc_bias_);         // (N, classes)
}

}  // namespace stoker

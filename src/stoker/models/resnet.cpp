// Four stages with widths 64 to 512; each stage after the first halves the image.
#include "stoker/models/resnet.h"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <fmt/format.h>

#include "stoker/models/init.h"

namespace stoker {
namespace {

constexpr const char* kBody = "backbone.";  // the prefix of FcnResNet's body

}  // namespace

ResNetBody::ResNetBody(const BodyOptions& options, at::Generator& generator)
    : stem_(options.stem), prefix_(options.prefix) {
    if (stem_ == ResNetStem::video) {
        stem_layer_ = conv_norm("stem.0", "stem.1", options.channels, 64, {3, 7, 7}, {1, 2, 2}, generator);
    } else {
        const bool imagenet = stem_ == ResNetStem::imagenet;
        stem_layer_ = conv_norm(prefix_ + "conv1", prefix_ + "bn1", options.channels, 64, kernel(imagenet ? 7 : 3),
                                {imagenet ? 2 : 1}, generator);
    }
    std::int64_t in = 64;
    std::int64_t dilation = 1;
    for (std::size_t stage = 0; stage < options.layout.depths.size(); ++stage) {
        const std::int64_t width = std::int64_t{64} << stage;
        const bool dilates = options.dilated && stage >= 2;
        for (int i = 0; i < options.layout.depths[stage]; ++i) {
            const std::string name = fmt::format("{}layer{}.{}", prefix_, stage + 1, i);
            const std::int64_t stride = stage > 0 && i == 0 && !dilates ? 2 : 1;
            blocks_.push_back(make_block(name, options.layout.block, in, width, stride, generator));
            for (ConvNorm& layer : blocks_.back().layers) {
                layer.dilation = layer.weight.size(2) > 1 ? dilation : 1;
            }
            dilation *= i == 0 && dilates ? 2 : 1;  // in torchvision a stage's first block has the dilation before it
            in = this->width();
        }
    }
}

std::int64_t ResNetBody::width() const {
    return blocks_.back().layers.back().weight.size(0);
}

ResNetBody::Block ResNetBody::make_block(const std::string& name, ResNetBlock kind, std::int64_t in, std::int64_t width,
                                         std::int64_t stride, at::Generator& generator) {
    const std::size_t first = parameters().size();
    Block block{.name = name};
    const auto add = [&](std::int64_t from, std::int64_t to, std::int64_t side, std::int64_t step) {
        const std::size_t number = block.layers.size() + 1;
        const bool video = stem_ == ResNetStem::video;
        block.layers.push_back(
            conv_norm(fmt::format("{}.conv{}{}", name, number, video ? ".0" : ""),
                      fmt::format("{}.{}{}{}", name, video ? "conv" : "bn", number, video ? ".1" : ""), from, to,
                      kernel(side), {step}, generator));
    };
    const std::int64_t out = kind == ResNetBlock::bottleneck ? 4 * width : width;
    if (kind == ResNetBlock::bottleneck) {
        add(in, width, 1, 1);
        add(width, width, 3, stride);
        add(width, out, 1, 1);
    } else {
        add(in, width, 3, stride);
        add(width, out, 3, 1);
    }
    if (stride != 1 || in != out) {
        block.downsample =
            conv_norm(name + ".downsample.0", name + ".downsample.1", in, out, kernel(1), {stride}, generator);
    }
    block.parameters = parameters_since(first);
    return block;
}

at::Tensor ResNetBody::run(const Block& block, const at::Tensor& input, bool recompute) const {
    at::Tensor x = input;
    for (std::size_t i = 0; i + 1 < block.layers.size(); ++i) {
        x = apply(block.layers[i], x, recompute, {});
    }
    const at::Tensor shortcut = block.downsample ? apply(*block.downsample, input, recompute, {.relu = false}) : input;
    return apply(block.layers.back(), x, recompute, {.shortcut = shortcut});
}

at::Tensor ResNetBody::recomputed(const Block& block, const at::Tensor& input) const {
    const auto pass = [this, &block](const at::Tensor& from, bool recompute) { return run(block, from, recompute); };
    return run_block(pass, input, block.parameters);
}

at::Tensor ResNetBody::stem(const at::Tensor& input) const {
    const at::Tensor x =
        apply(stem_layer_, stem_ == ResNetStem::video ? input.transpose(1, 2) : input, /*recompute=*/false, {});
    return stem_ == ResNetStem::imagenet ? at::max_pool2d(x, 3, 2, 1) : x;
}

at::Tensor ResNetBody::features(const at::Tensor& input) const {
    at::Tensor x = stem(input);
    for (const Block& block : blocks_) {
        x = recomputed(block, x);
    }
    return x;
}

std::vector<ModelBlock> ResNetBody::body_blocks() const {
    std::vector<ModelBlock> all = {{.name = "stem",
                                    .tensors = {prefix_ + "conv1.*", prefix_ + "bn1.*", "stem.*"},
                                    .forward = [this](const auto& x) {
                                        count_batch(0, 1);
                                        return stem(x);
                                    }}};
    std::size_t norm = 1;
    for (const Block& block : blocks_) {
        const std::size_t first = norm;
        norm += block.layers.size() + (block.downsample ? 1 : 0);
        all.push_back({.name = block.name,
                       .tensors = {block.name + ".*"},
                       .forward = [this, &block, first, norm](const at::Tensor& x) {
                           count_batch(first, norm);
                           return recomputed(block, x);
                       }});
    }
    return all;
}

ResNet::ResNet(const ResNetLayout& layout, std::int64_t channels, std::int64_t classes, ResNetStem stem,
               at::Generator& generator)
    : ResNetBody({.layout = layout, .channels = channels, .stem = stem}, generator) {
    if (stem == ResNetStem::video) {
        add_classifier(normal({classes, width()}, 0.01, generator), at::zeros({classes}));
    } else {
        add_classifier(width(), classes, generator);
    }
}

at::Tensor ResNet::forward(const at::Tensor& input) {
    count_batch();
    return classify(features(input));
}

std::vector<ModelBlock> ResNet::blocks() const {
    std::vector<ModelBlock> all = body_blocks();
    all.push_back(classifier_block());
    return all;
}

FcnResNet::FcnResNet(const ResNetLayout& layout, std::int64_t channels, std::int64_t classes, at::Generator& generator)
    : ResNetBody({.layout = layout, .channels = channels, .prefix = kBody, .dilated = true}, generator) {
    const std::int64_t narrow = width() / 4;
    head_ = conv_norm("classifier.0", "classifier.1", width(), narrow, {3, 3}, {1}, generator);
    const c10::NoGradGuard no_grad;
    head_.weight.copy_(default_uniform(head_.weight.sizes(), width() * 9, generator));
    weight_ = parameter("classifier.4.weight", default_uniform({classes, narrow, 1, 1}, narrow, generator));
    bias_ = parameter("classifier.4.bias", default_uniform({classes}, narrow, generator));
}

at::Tensor FcnResNet::forward(const at::Tensor& input) {
    constexpr double kDropout = 0.1;
    count_batch();
    const at::Tensor x = at::dropout(apply(head_, features(input), /*recompute=*/false, {}), kDropout, training());
    return at::upsample_bilinear2d(at::conv2d(x, weight_, bias_), input.sizes().slice(2), /*align_corners=*/false);
}

std::vector<std::string> FcnResNet::adapt(std::vector<NamedTensor>& given) const {
    const auto begins = [](const char* prefix) {
        return [prefix](const NamedTensor& entry) { return entry.name.starts_with(prefix); };
    };
    std::erase_if(given, begins("aux_classifier."));
    if (std::ranges::any_of(given, begins(kBody)) || std::ranges::none_of(given, begins("layer4."))) {
        return {};
    }
    std::erase_if(given, begins("fc."));
    for (NamedTensor& entry : given) {
        entry.name.insert(0, kBody);
    }
    std::vector<std::string> own;
    for (const NamedTensor& entry : state()) {
        if (!entry.name.starts_with(kBody)) {
            own.push_back(entry.name);
        }
    }
    return own;
}

}  // namespace stoker

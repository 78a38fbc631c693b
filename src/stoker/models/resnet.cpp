// Four stages with widths 64 to 512; each stage after the first halves the image.
#include "stoker/models/resnet.h"

#include <ATen/ops/max_pool2d.h>

#include <fmt/format.h>

namespace stoker {

ResNet::ResNet(const ResNetLayout& layout, std::int64_t channels, std::int64_t classes, ResNetStem stem,
               at::Generator& generator)
    : stem_(stem) {
    const bool imagenet = stem == ResNetStem::imagenet;
    stem_layer_ = conv_norm("conv1", "bn1", channels, 64, imagenet ? 7 : 3, imagenet ? 2 : 1, generator);
    std::int64_t in = 64;
    for (std::size_t stage = 0; stage < layout.depths.size(); ++stage) {
        const std::int64_t width = std::int64_t{64} << stage;
        for (int i = 0; i < layout.depths[stage]; ++i) {
            const std::string name = fmt::format("layer{}.{}", stage + 1, i);
            const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
            blocks_.push_back(make_block(name, layout.block, in, width, stride, generator));
            in = blocks_.back().layers.back().weight.size(0);
        }
    }
    add_classifier(in, classes, generator);
}

ResNet::Block ResNet::make_block(const std::string& name, ResNetBlock kind, std::int64_t in, std::int64_t width,
                                 std::int64_t stride, at::Generator& generator) {
    const std::size_t first = parameters().size();
    Block block{.name = name};
    const auto add = [&](std::int64_t from, std::int64_t to, std::int64_t kernel, std::int64_t step) {
        const std::size_t number = block.layers.size() + 1;
        block.layers.push_back(conv_norm(fmt::format("{}.conv{}", name, number), fmt::format("{}.bn{}", name, number),
                                         from, to, kernel, step, generator));
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
        block.downsample = conv_norm(name + ".downsample.0", name + ".downsample.1", in, out, 1, stride, generator);
    }
    block.parameters = parameters_since(first);
    return block;
}

at::Tensor ResNet::run(const Block& block, const at::Tensor& input, bool recompute) const {
    at::Tensor x = input;
    for (std::size_t i = 0; i + 1 < block.layers.size(); ++i) {
        x = apply(block.layers[i], x, recompute, {});
    }
    const at::Tensor shortcut = block.downsample ? apply(*block.downsample, input, recompute, {.relu = false}) : input;
    return apply(block.layers.back(), x, recompute, {.shortcut = shortcut});
}

at::Tensor ResNet::recomputed(const Block& block, const at::Tensor& input) const {
    const auto pass = [this, &block](const at::Tensor& from, bool recompute) { return run(block, from, recompute); };
    return run_block(pass, input, block.parameters);
}

at::Tensor ResNet::stem(const at::Tensor& input) const {
    const at::Tensor x = apply(stem_layer_, input, /*recompute=*/false, {});
    return stem_ == ResNetStem::imagenet ? at::max_pool2d(x, 3, 2, 1) : x;
}

at::Tensor ResNet::forward(const at::Tensor& input) {
    count_batch();
    at::Tensor x = stem(input);
    for (const Block& block : blocks_) {
        x = recomputed(block, x);
    }
    return classify(x);
}

std::vector<ModelBlock> ResNet::blocks() const {
    std::vector<ModelBlock> all = {{.name = "stem", .tensors = {"conv1.*", "bn1.*"}, .forward = [this](const auto& x) {
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
    all.push_back(classifier_block());
    return all;
}

}  // namespace stoker

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
    Block block;
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

at::Tensor ResNet::forward(const at::Tensor& input) {
    count_batch();
    at::Tensor x = apply(stem_layer_, input, /*recompute=*/false, {});
    if (stem_ == ResNetStem::imagenet) {
        x = at::max_pool2d(x, 3, 2, 1);
    }
    for (const Block& block : blocks_) {
        const auto pass = [this, &block](const at::Tensor& from, bool recompute) {
            return run(block, from, recompute);
        };
        x = run_block(pass, x, block.parameters);
    }
    return classify(x);
}

}  // namespace stoker

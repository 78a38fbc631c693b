// Widths 64, 128 and 256; each stage after the first starts with a max pooling that halves the image.
#include "stoker/models/convnet.h"

#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>

#include <fmt/format.h>

#include "stoker/base/error.h"

namespace stoker {

ConvNet::ConvNet(std::int64_t channels, std::int64_t height, std::int64_t width, std::int64_t classes,
                 at::Generator& generator) {
    if (height < kSmallestImage || width < kSmallestImage) {
        throw InvalidArgument({.where = "model.name",
                               .expected = fmt::format("images of at least {0} x {0} for convnet", kSmallestImage),
                               .got = fmt::format("{} x {}", height, width)});
    }
    std::int64_t in = channels;
    int number = 0;
    for (const std::int64_t out : {64, 128, 256}) {
        const std::size_t first = parameters().size();
        Stage stage;
        for (int i = 0; i < 2; ++i) {
            ++number;
            stage.layers.push_back(
                conv_norm(fmt::format("conv{}", number), fmt::format("bn{}", number), in, out, {3, 3}, {1}, generator));
            in = out;
        }
        stage.parameters = parameters_since(first);
        stages_.push_back(std::move(stage));
    }
    add_classifier(in, classes, generator);
}

at::Tensor ConvNet::run(const Stage& stage, const at::Tensor& input, bool recompute) const {
    at::Tensor x = &stage == &stages_.front() ? input : at::max_pool2d(input, 2);
    for (const ConvNorm& layer : stage.layers) {
        x = apply(layer, x, recompute, {});
    }
    return x;
}

at::Tensor ConvNet::recomputed(const Stage& stage, const at::Tensor& input) const {
    const auto pass = [this, &stage](const at::Tensor& from, bool recompute) { return run(stage, from, recompute); };
    return run_block(pass, input, stage.parameters);
}

at::Tensor ConvNet::forward(const at::Tensor& input) {
    count_batch();
    at::Tensor x = input;
    for (const Stage& stage : stages_) {
        x = recomputed(stage, x);
    }
    return classify(x);
}

std::vector<ModelBlock> ConvNet::blocks() const {
    std::vector<ModelBlock> all;
    std::size_t norm = 0;
    for (const Stage& stage : stages_) {
        const std::size_t first = norm;
        norm += stage.layers.size();
        ModelBlock block{.name = fmt::format("stage{}", all.size() + 1)};
        for (std::size_t layer = first + 1; layer <= norm; ++layer) {
            block.tensors.push_back(fmt::format("conv{}.*", layer));
            block.tensors.push_back(fmt::format("bn{}.*", layer));
        }
        block.forward = [this, &stage, first, norm](const at::Tensor& x) {
            count_batch(first, norm);
            return recomputed(stage, x);
        };
        all.push_back(std::move(block));
    }
    all.push_back(classifier_block());
    return all;
}

}  // namespace stoker

// Pre-norm blocks of self-attention and an MLP with GELU, without dropout. The head classifies the class token.
#include "stoker/models/vit.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/models/gradient_checkpointing.h"
#include "stoker/models/init.h"

namespace stoker {
namespace {

constexpr double kEps = 1e-6;

template <typename Layer>
at::Tensor normalized(const at::Tensor& x, const Layer& layer) {
    return at::layer_norm(x, {VisionTransformer::kHidden}, layer.weight, layer.bias, kEps);
}

std::string block_name(std::int64_t block) {
    return fmt::format("encoder.layers.encoder_layer_{}", block);
}

}  // namespace

std::vector<at::Tensor> VisionTransformer::Block::parameters() const {
    std::vector<at::Tensor> all;
    for (const Affine* layer : {&norm_1, &in_projection, &out_projection, &norm_2, &mlp_in, &mlp_out}) {
        all.push_back(layer->weight);
        all.push_back(layer->bias);
    }
    return all;
}

VisionTransformer::VisionTransformer(std::int64_t channels, std::int64_t height, std::int64_t width,
                                     std::int64_t classes, at::Generator& generator)
    : height_(height), width_(width) {
    if (height % kPatch != 0 || width % kPatch != 0) {
        throw InvalidArgument(
            {.where = "model.name",
             .expected = fmt::format("images for vit_s_16 with sides that are multiples of {}", kPatch),
             .got = fmt::format("{} x {}", height, width),
             .hint = "add a resize or a crop to data.train_ops and data.val_ops"});
    }
    const std::int64_t patches = (height / kPatch) * (width / kPatch);
    class_token_ = parameter("class_token", at::zeros({1, 1, kHidden}));
    // torchvision truncates this normal distribution at 2, which is so far out that no draw reaches it.
    const double deviation = 1.0 / std::sqrt(static_cast<double>(channels * kPatch * kPatch));
    patches_.weight = parameter("conv_proj.weight", normal({kHidden, channels, kPatch, kPatch}, deviation, generator));
    patches_.bias = parameter("conv_proj.bias", at::zeros({kHidden}));
    positions_ = parameter("encoder.pos_embedding", normal({1, 1 + patches, kHidden}, 0.02, generator));
    for (std::int64_t i = 0; i < kLayers; ++i) {
        blocks_.push_back(make_block(block_name(i), generator));
    }
    norm_ = layer_norm("encoder.ln");
    head_.weight = parameter("heads.head.weight", at::zeros({classes, kHidden}));
    head_.bias = parameter("heads.head.bias", at::zeros({classes}));
}

VisionTransformer::Affine VisionTransformer::layer_norm(const std::string& name) {
    const at::Tensor weight = parameter(name + ".weight", at::ones({kHidden}));
    return {weight, parameter(name + ".bias", at::zeros({kHidden}))};
}

VisionTransformer::Block VisionTransformer::make_block(const std::string& name, at::Generator& generator) {
    const auto add = [&](const std::string& part, at::Tensor value) {
        return parameter(name + part, std::move(value));
    };
    Block block;
    block.norm_1 = layer_norm(name + ".ln_1");
    block.in_projection.weight =
        add(".self_attention.in_proj_weight", xavier_uniform({3 * kHidden, kHidden}, generator));
    block.in_projection.bias = add(".self_attention.in_proj_bias", at::zeros({3 * kHidden}));
    block.out_projection.weight =
        add(".self_attention.out_proj.weight", default_uniform({kHidden, kHidden}, kHidden, generator));
    block.out_projection.bias = add(".self_attention.out_proj.bias", at::zeros({kHidden}));
    block.norm_2 = layer_norm(name + ".ln_2");
    block.mlp_in.weight = add(".mlp.0.weight", xavier_uniform({kMlp, kHidden}, generator));
    block.mlp_in.bias = add(".mlp.0.bias", normal({kMlp}, 1e-6, generator));
    block.mlp_out.weight = add(".mlp.3.weight", xavier_uniform({kHidden, kMlp}, generator));
    block.mlp_out.bias = add(".mlp.3.bias", normal({kHidden}, 1e-6, generator));
    return block;
}

std::vector<DividedParameter> VisionTransformer::division(int ranks) const {
    if (kHeads % ranks != 0) {
        throw InvalidArgument({.where = "train.mesh.tp",
                               .expected = fmt::format("a divisor of the {} attention heads of vit_s_16", kHeads),
                               .got = fmt::to_string(ranks),
                               .hint = "set it to 2, 3 or 6"});
    }
    std::vector<DividedParameter> divided;
    for (std::int64_t i = 0; i < kLayers; ++i) {
        const std::string name = block_name(i);
        divided.push_back({.name = name + ".self_attention.in_proj_weight", .blocks = 3});
        divided.push_back({.name = name + ".self_attention.in_proj_bias", .blocks = 3});
        divided.push_back({.name = name + ".self_attention.out_proj.weight", .dim = 1});
        divided.push_back({.name = name + ".mlp.0.weight"});
        divided.push_back({.name = name + ".mlp.0.bias"});
        divided.push_back({.name = name + ".mlp.3.weight", .dim = 1});
    }
    return divided;
}

at::Tensor VisionTransformer::block_input(const at::Tensor& x) const {
    return tensor_ranks() != nullptr ? to_all_ranks(x, *tensor_ranks()) : x;
}

// With tensor parallelism of this rank's heads.
at::Tensor VisionTransformer::attention(const Block& block, const at::Tensor& x) const {
    const std::int64_t tokens = x.size(1);
    const std::int64_t heads = tensor_ranks() != nullptr ? kHeads / tensor_ranks()->size : kHeads;
    constexpr std::int64_t kHeadSize = kHidden / kHeads;
    const at::Tensor projected = at::linear(block_input(x), block.in_projection.weight, block.in_projection.bias);
    const at::Tensor parts =
        projected.view({-1, tokens, 3, heads, kHeadSize}).permute({2, 0, 3, 1, 4});           // (3, N, heads, S, d)
    const at::Tensor mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2]);  // (N, heads, S, d)
    const at::Tensor joined = mixed.transpose(1, 2).reshape({-1, tokens, heads * kHeadSize});
    return row_linear(joined, block.out_projection.weight, block.out_projection.bias, tensor_ranks());
}

at::Tensor VisionTransformer::run(const Block& block, const at::Tensor& input) const {
    const at::Tensor x = attention(block, normalized(input, block.norm_1)).add(input);
    const at::Tensor inner =
        at::linear(block_input(normalized(x, block.norm_2)), block.mlp_in.weight, block.mlp_in.bias);
    return row_linear(at::gelu(inner), block.mlp_out.weight, block.mlp_out.bias, tensor_ranks()).add(x);
}

// Images (N, C, H, W) to tokens (N, 1 + patches, kHidden).
at::Tensor VisionTransformer::embed(const at::Tensor& input) const {
    if (input.size(2) != height_ || input.size(3) != width_) {
        throw InvalidArgument({.where = "vit_s_16",
                               .expected = fmt::format("images of {} x {}, as in training", height_, width_),
                               .got = fmt::format("{} x {}", input.size(2), input.size(3)),
                               .hint = "let data.val_ops end with the size that data.train_ops end with"});
    }
    at::Tensor x = at::conv2d(input, patches_.weight, patches_.bias, kPatch);  // (N, kHidden, H / 16, W / 16)
    x = x.flatten(2).transpose(1, 2);                                          // (N, patches, kHidden)
    x = at::cat({class_token_.expand_as(x.narrow(1, 0, 1)), x}, 1);  // expand_as keeps a trace free of the batch size
    return x.add(positions_);
}

at::Tensor VisionTransformer::recomputed(const Block& block, const at::Tensor& x) const {
    const auto pass = [this, &block](const at::Tensor& from, bool /*recompute*/) { return run(block, from); };
    return gradient_checkpointing() ? gradient_checkpoint(pass, x, block.parameters()) : run(block, x);
}

at::Tensor VisionTransformer::classify(const at::Tensor& x) const {
    return at::linear(normalized(x, norm_).select(1, 0), head_.weight, head_.bias);  // (N, classes)
}

at::Tensor VisionTransformer::forward(const at::Tensor& input) {
    at::Tensor x = embed(input);
    for (const Block& block : blocks_) {
        x = recomputed(block, x);
    }
    return classify(x);
}

std::vector<ModelBlock> VisionTransformer::blocks() const {
    std::vector<ModelBlock> all = {{.name = "embedding",
                                    .tensors = {"class_token", "conv_proj.*", "encoder.pos_embedding"},
                                    .forward = [this](const at::Tensor& x) { return embed(x); }}};
    for (std::int64_t i = 0; i < kLayers; ++i) {
        const Block& block = blocks_[static_cast<std::size_t>(i)];
        all.push_back({.name = fmt::format("encoder_layer_{}", i),
                       .tensors = {block_name(i) + ".*"},
                       .forward = [this, &block](const at::Tensor& x) { return recomputed(block, x); }});
    }
    all.push_back({.name = "head", .tensors = {"encoder.ln.*", "heads.*"}, .forward = [this](const at::Tensor& x) {
                       return classify(x);
                   }});
    return all;
}

}  // namespace stoker

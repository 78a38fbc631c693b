// Batch norm has the defaults of torch.nn.BatchNorm2d: momentum 0.1, eps 1e-5.
#include "stoker/models/conv_model.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/adaptive_avg_pool3d.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv3d.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <optional>

#include "stoker/base/error.h"
#include "stoker/models/init.h"

namespace stoker {

ConvModel::ConvNorm ConvModel::conv_norm(const std::string& conv, const std::string& norm, std::int64_t in,
                                         std::int64_t out, const Shape& kernel, const Shape& stride,
                                         at::Generator& generator) {
    ConvNorm layer;
    Shape sides = {out, in};
    sides.insert(sides.end(), kernel.begin(), kernel.end());
    layer.weight = parameter(conv + ".weight", kaiming_normal_fan_out(sides, generator));
    layer.norm.gamma = parameter(norm + ".weight", at::ones({out}));
    layer.norm.beta = parameter(norm + ".bias", at::zeros({out}));
    layer.norm.running_mean = buffer(norm + ".running_mean", at::zeros({out}));
    layer.norm.running_var = buffer(norm + ".running_var", at::ones({out}));
    batch_counts_.push_back(buffer(norm + ".num_batches_tracked", at::zeros({}, at::kLong)));
    layer.stride = stride;
    return layer;
}

void ConvModel::add_classifier(std::int64_t width, std::int64_t classes, at::Generator& generator) {
    const at::Tensor weight = default_uniform({classes, width}, width, generator);
    add_classifier(weight, default_uniform({classes}, width, generator));
}

void ConvModel::add_classifier(const at::Tensor& weight, const at::Tensor& bias) {
    fc_weight_ = parameter("fc.weight", weight);
    fc_bias_ = parameter("fc.bias", bias);
}

std::vector<at::Tensor> ConvModel::parameters_since(std::size_t first) const {
    std::vector<at::Tensor> added;
    for (std::size_t i = first; i < parameters().size(); ++i) {
        added.push_back(parameters()[i].tensor);
    }
    return added;
}

void ConvModel::count_batch(std::size_t first, std::size_t last) const {
    if (training() && first < last) {
        const c10::NoGradGuard no_grad;
        at::_foreach_add_(at::TensorList(batch_counts_).slice(first, last - first), 1);
    }
}

ModelBlock ConvModel::classifier_block() const {
    return {.name = "fc", .tensors = {"fc.*"}, .forward = [this](const at::Tensor& x) { return classify(x); }};
}

at::Tensor ConvModel::apply(const ConvNorm& layer, const at::Tensor& input, bool recompute, const After& after) const {
    Shape padding = layer.weight.sizes().slice(2).vec();
    std::ranges::transform(padding, padding.begin(), [&](std::int64_t side) { return side / 2 * layer.dilation; });
    const at::Tensor x = padding.size() == 3
                             ? at::conv3d(input, layer.weight, {}, layer.stride, padding, layer.dilation)
                             : at::conv2d(input, layer.weight, {}, layer.stride, padding, layer.dilation);
    if (training() && sum_over_ranks() == nullptr && x.numel() == x.size(1)) {
        // The variance of one value is undefined. torch.nn refuses this too; ATen would make running_var NaN.
        throw InvalidArgument(
            {.where = "batch norm",
             .expected = "more than one value per channel in training",
             .got = "a batch of one sample with one pixel left",
             .hint = "set data.drop_last = true, another data.batch_size, a lower train.accumulate, or larger images"});
    }
    return batch_norm_relu(
        x, layer.norm, after.shortcut,
        {.training = training(), .update_running = !recompute, .relu = after.relu, .sum = sum_over_ranks()});
}

at::Tensor ConvModel::run_block(const BlockForward& block, const at::Tensor& input,
                                const std::vector<at::Tensor>& parameters) const {
    return gradient_checkpointing() ? gradient_checkpoint(block, input, parameters) : block(input, false);
}

at::Tensor ConvModel::classify(const at::Tensor& features) const {
    const at::Tensor pooled =
        features.dim() == 5 ? at::adaptive_avg_pool3d(features, {1, 1, 1}) : at::adaptive_avg_pool2d(features, {1, 1});
    return at::linear(pooled.flatten(1), fc_weight_, fc_bias_);  // (N, classes)
}

}  // namespace stoker

// What all models share, and the table of their names.
#include "stoker/models/model.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stoker/base/error.h"
#include "stoker/models/init.h"
#include "stoker/models/mlp.h"
#include "stoker/models/resnet.h"

namespace stoker {

at::Tensor Model::loss(const at::Tensor& input, const at::Tensor& label, const LossOptions& options) {
    constexpr std::int64_t kNoIgnoredIndex = -100;  // torch's default: labels are never negative
    return at::cross_entropy_loss(forward(input), label, /*weight=*/{}, at::Reduction::Mean, kNoIgnoredIndex,
                                  options.label_smoothing);
}

void Model::backward(const at::Tensor& loss, const at::Tensor& gradient) {
    loss.backward(gradient);
}

std::vector<NamedTensor> Model::state() const {
    std::vector<NamedTensor> all = parameters_;
    all.insert(all.end(), buffers_.begin(), buffers_.end());
    return all;
}

void Model::to(const at::Device& device, bool channels_last) {
    for (auto* list : {&parameters_, &buffers_}) {
        for (auto& [name, tensor] : *list) {
            const bool image = channels_last && tensor.dim() == 4;
            at::Tensor moved = tensor.detach().to(device);
            tensor.set_data(moved.contiguous(image ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous));
        }
    }
}

void Model::load(const std::vector<NamedTensor>& given) {
    const c10::NoGradGuard no_grad;
    for (const auto& [name, tensor] : state()) {
        const auto found = std::ranges::find(given, name, &NamedTensor::name);
        if (found == given.end() || found->tensor.sizes() != tensor.sizes()) {
            throw InvalidArgument({.where = "model weights",
                                   .expected = fmt::format("{} of shape [{}]", name, fmt::join(tensor.sizes(), ", ")),
                                   .got = found == given.end()
                                              ? "none"
                                              : fmt::format("shape [{}]", fmt::join(found->tensor.sizes(), ", ")),
                                   .hint = "the checkpoint must come from the same model and number of classes"});
        }
        tensor.copy_(found->tensor);
    }
    const auto own = state();
    for (const auto& [name, tensor] : given) {
        if (std::ranges::find(own, name, &NamedTensor::name) == own.end()) {
            throw InvalidArgument({.where = "model weights",
                                   .expected = fmt::format("the {} tensors of the model, no others", own.size()),
                                   .got = name,
                                   .hint = "the checkpoint must come from the same model"});
        }
    }
}

at::Tensor Model::parameter(const std::string& name, at::Tensor value) {
    value.requires_grad_(true);
    parameters_.push_back({name, value});
    return value;
}

at::Tensor Model::buffer(const std::string& name, at::Tensor value) {
    buffers_.push_back({name, value});
    return value;
}

namespace {

Activation activation_of(const std::string& name) {
    return name == "gelu" ? Activation::gelu : name == "tanh" ? Activation::tanh : Activation::relu;
}

}  // namespace

std::unique_ptr<Model> make_model(const ModelRecipe& recipe, const Shape& input, std::int64_t classes,
                                  std::uint64_t seed) {
    at::Generator generator = make_generator(seed);
    if (recipe.name == "mlp") {
        return std::make_unique<Mlp>(element_count(input), recipe.hidden, classes, activation_of(recipe.activation),
                                     generator);
    }
    if (recipe.name == "resnet18") {
        const bool cifar = recipe.stem == "cifar" || (recipe.stem == "auto" && input[1] <= 64 && input[2] <= 64);
        return std::make_unique<ResNet18>(input[0], classes, cifar ? ResNetStem::cifar : ResNetStem::imagenet,
                                          generator);
    }
    throw InvalidArgument({.where = "model.name", .expected = "mlp or resnet18", .got = recipe.name});
}

}  // namespace stoker

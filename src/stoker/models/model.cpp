// The common parts of all models, and make_model, which creates a model by name.
#include "stoker/models/model.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <fmt/format.h>
#include <string_view>

#include "stoker/base/error.h"
#include "stoker/base/map_damage.h"
#include "stoker/models/convnet.h"
#include "stoker/models/exported_model.h"
#include "stoker/models/imported_model.h"
#include "stoker/models/init.h"
#include "stoker/models/mlp.h"
#include "stoker/models/name_pattern.h"
#include "stoker/models/resnet.h"
#include "stoker/models/torchscript_model.h"
#include "stoker/models/vit.h"
#include "stoker/models/weights.h"

namespace stoker {

at::Tensor Model::loss(const DeviceBatch& batch, const LossOptions& options) {
    return compute_loss(outputs(batch), batch, options);
}

std::vector<at::Tensor> named_inputs(const DeviceBatch& batch, const std::vector<std::string>& names) {
    if (names.empty()) {
        return {batch.input};
    }
    std::vector<at::Tensor> tensors;
    for (const std::string& name : names) {
        const bool first = tensors.empty();
        const at::Tensor* const found = batch.find(name);
        tensors.push_back(first && found == nullptr ? batch.input : batch.field(name));
    }
    return tensors;
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
            const auto format = !channels_last      ? at::MemoryFormat::Contiguous
                                : tensor.dim() == 4 ? at::MemoryFormat::ChannelsLast
                                : tensor.dim() == 5 ? at::MemoryFormat::ChannelsLast3d
                                                    : at::MemoryFormat::Contiguous;
            // contiguous() would not change the strides of a tensor with one channel or a 1x1 kernel, which count as
            // contiguous in both formats.
            tensor.set_data(
                tensor.detach().to(tensor.options().device(device), /*non_blocking=*/false, /*copy=*/false, format));
        }
    }
    for (const at::Tensor& tensor : constants()) {
        tensor.set_data(tensor.detach().to(device));
    }
}

void Model::load(const std::vector<NamedTensor>& given, const std::string& where) {
    const c10::NoGradGuard no_grad;
    require_weights(*this, given, where);
    for (const auto& [name, tensor] : state()) {
        tensor.copy_(std::ranges::find(given, name, &NamedTensor::name)->tensor);
    }
    check_maps();  // the tensors may be views of a file
}

std::vector<std::string> Model::load_pretrained(std::vector<NamedTensor> given, std::int64_t classes,
                                                const std::string& where) {
    strip_prefixes(given, *this);
    std::vector<std::string> fresh = adapt(given);
    add_batch_counts(given, *this);
    if (fresh.empty()) {
        fresh = missing_classifier(*this, given, classes);
    }
    if (fresh.empty()) {
        fresh = mismatched_classifier(*this, given, classes);
    }
    for (const std::string& name : fresh) {
        std::erase_if(given, [&](const NamedTensor& entry) { return entry.name == name; });
        const std::vector<NamedTensor> own = state();
        given.push_back({name, std::ranges::find(own, name, &NamedTensor::name)->tensor.detach().clone()});
    }
    load(given, where);
    require_finite(*this, where);
    return fresh;
}

std::vector<DividedParameter> Model::division(int ranks) const {
    throw InvalidArgument({.where = "train.mesh.tp",
                           .expected = "1, except for mlp and vit_s_16, whose layers can be divided",
                           .got = std::to_string(ranks),
                           .hint = "processes can share the batches of any built-in model: set it to 1"});
}

void Model::divide(const TensorRanks& ranks) {
    const c10::NoGradGuard no_grad;
    divided_ = division(ranks.size);
    tensor_ranks_ = ranks;
    for (const DividedParameter& parameter : divided_) {
        const at::Tensor& own = std::ranges::find(parameters_, parameter.name, &NamedTensor::name)->tensor;
        own.set_data(slice_of(own.detach(), parameter, ranks.rank, ranks.size));
    }
}

bool ModelBlock::has(const std::string& tensor) const {
    return std::ranges::any_of(tensors, [&](const std::string& pattern) { return matches(tensor, pattern); });
}

void Model::keep_blocks(std::size_t first, std::size_t last) {
    whole_state_names_ = whole_state_names();
    const std::vector<ModelBlock> all = blocks();
    stage_.assign(all.begin() + static_cast<std::ptrdiff_t>(first), all.begin() + static_cast<std::ptrdiff_t>(last));
    const auto elsewhere = [this](const std::string& name) {
        return std::ranges::none_of(stage_, [&](const ModelBlock& block) { return block.has(name); });
    };
    for (auto* list : {&parameters_, &buffers_}) {
        for (auto& [name, tensor] : *list) {
            if (elsewhere(name)) {
                tensor.set_data(at::empty({0}, tensor.options().requires_grad(false)));  // other blocks refer to it
            }
        }
        std::erase_if(*list, [&](const NamedTensor& entry) { return elsewhere(entry.name); });
    }
    std::erase_if(divided_, [&](const DividedParameter& parameter) { return elsewhere(parameter.name); });
}

at::Tensor Model::forward_stage(const at::Tensor& input) const {
    at::Tensor x = input;
    for (const ModelBlock& block : stage_) {
        x = block.forward(x);
    }
    return x;
}

std::vector<std::string> Model::whole_state_names() const {
    if (is_stage()) {
        return whole_state_names_;
    }
    std::vector<std::string> names;
    for (const auto& [name, tensor] : state()) {
        names.push_back(name);
    }
    return names;
}

void Model::freeze(const std::vector<std::string>& patterns) {
    for (const std::string& pattern : patterns) {
        bool found = false;
        for (auto& [name, tensor] : parameters_) {
            if (matches(name, pattern)) {
                tensor.requires_grad_(false);
                found = true;
            }
        }
        if (!found) {
            throw InvalidArgument(
                {.where = "model.freeze",
                 .expected = "the name of a parameter, or a pattern such as \"layer1.*\"",
                 .got = "\"" + pattern + "\", which matches none",
                 .hint = parameters_.empty() ? "" : "its first parameter is " + parameters_.front().name});
        }
    }
    if (!parameters_.empty() && !patterns.empty() && trainable_parameters().empty()) {
        throw InvalidArgument({.where = "model.freeze",
                               .expected = "at least one parameter that trains",
                               .got = "all of them frozen",
                               .hint = "leave the last layer, " + parameters_.back().name + ", out of the patterns"});
    }
}

std::vector<NamedTensor> Model::trainable_parameters() const {
    std::vector<NamedTensor> trainable;
    std::ranges::copy_if(parameters_, std::back_inserter(trainable),
                         [](const NamedTensor& entry) { return entry.tensor.requires_grad(); });
    return trainable;
}

void Model::enable_gradient_checkpointing() {
    if (!can_recompute()) {
        throw InvalidArgument({.where = "train.gradient_checkpointing",
                               .expected = "convnet, a resnet or vit_s_16",
                               .got = "a model without blocks to recompute",
                               .hint = "set it to false"});
    }
    gradient_checkpointing_ = true;
}

at::Tensor Model::parameter(const std::string& name, at::Tensor value) {
    value.requires_grad_(true);
    add(parameters_, name, value);
    return value;
}

at::Tensor Model::buffer(const std::string& name, at::Tensor value) {
    add(buffers_, name, value);
    return value;
}

void Model::add(std::vector<NamedTensor>& list, const std::string& name, const at::Tensor& value) {
    if (std::ranges::any_of(list, [&](const NamedTensor& entry) { return entry.tensor.is_same(value); })) {
        tied_names_.push_back(name);
    } else {
        list.push_back({name, value});
    }
}

namespace {

bool takes_clips(const ModelRecipe& recipe) {
    return recipe.name == "r3d_18";
}

Activation activation_of(const std::string& name) {
    return name == "gelu" ? Activation::gelu : name == "tanh" ? Activation::tanh : Activation::relu;
}

ResNetStem stem_of(const ModelRecipe& recipe, const Shape& input) {
    if (takes_clips(recipe)) {
        return ResNetStem::video;
    }
    const bool cifar = recipe.stem == "cifar" || (recipe.stem == "auto" && input[1] <= 64 && input[2] <= 64);
    return cifar ? ResNetStem::cifar : ResNetStem::imagenet;
}

struct NamedLayout {
    std::string_view name;
    ResNetLayout layout;
};

constexpr NamedLayout kResNets[] = {
    {"resnet18", {{2, 2, 2, 2}, ResNetBlock::basic}},
    {"resnet34", {{3, 4, 6, 3}, ResNetBlock::basic}},
    {"resnet50", {{3, 4, 6, 3}, ResNetBlock::bottleneck}},
    {"r3d_18", {{2, 2, 2, 2}, ResNetBlock::basic}},
};

void require_input(const ModelRecipe& recipe, const Shape& input) {
    const bool clips = input.size() == 4;
    if (recipe.name != "mlp" && clips != takes_clips(recipe)) {
        throw InvalidArgument({.where = "model.name",
                               .expected = clips ? "r3d_18 or mlp, for clips" : "a model for images",
                               .got = recipe.name,
                               .hint = clips ? "or write a model in Python and set model.export"
                                             : "data.frames makes clips of folders of frames and of arrays"});
    }
}

}  // namespace

std::string model_label(const ModelRecipe& recipe, const Shape& input) {
    if (imported_model_key(recipe) != nullptr) {
        return recipe.script.empty() ? recipe.exported : recipe.script;
    }
    if (std::ranges::find(kResNets, recipe.name, &NamedLayout::name) == std::end(kResNets) || takes_clips(recipe)) {
        return recipe.name;
    }
    return fmt::format("{} ({} stem)", recipe.name, stem_of(recipe, input) == ResNetStem::cifar ? "cifar" : "imagenet");
}

bool gives_pixels(const ModelRecipe& recipe) {
    return imported_model_key(recipe) == nullptr && recipe.name == "fcn_resnet50";
}

std::unique_ptr<Model> make_model(const ModelRecipe& recipe, const Shape& input, std::int64_t classes,
                                  std::uint64_t seed, const at::Device& device) {
    if (!recipe.script.empty()) {
        return std::make_unique<TorchScriptModel>(recipe.script);
    }
    if (!recipe.exported.empty()) {
        return std::make_unique<ExportedModel>(recipe.exported, input, device);
    }
    require_input(recipe, input);
    at::Generator generator = make_generator(seed);
    if (recipe.name == "mlp") {
        return std::make_unique<Mlp>(element_count(input), recipe.hidden, classes, activation_of(recipe.activation),
                                     generator);
    }
    if (recipe.name == "convnet") {
        return std::make_unique<ConvNet>(input[0], input[1], input[2], classes, generator);
    }
    const auto* resnet = std::ranges::find(kResNets, recipe.name, &NamedLayout::name);
    if (resnet != std::end(kResNets)) {
        return std::make_unique<ResNet>(resnet->layout, channels_in(input), classes, stem_of(recipe, input), generator);
    }
    if (gives_pixels(recipe)) {
        return std::make_unique<FcnResNet>(std::ranges::find(kResNets, "resnet50", &NamedLayout::name)->layout,
                                           input[0], classes, generator);
    }
    if (recipe.name == "vit_s_16") {
        return std::make_unique<VisionTransformer>(input[0], input[1], input[2], classes, generator);
    }
    throw InvalidArgument({.where = "model.name",
                           .expected = "mlp, convnet, resnet18, resnet34, resnet50, vit_s_16, fcn_resnet50 or r3d_18",
                           .got = recipe.name});
}

}  // namespace stoker

// Names are compared before shapes: if names are missing, the model is another one and shapes mean nothing.
#include "stoker/models/weights.h"

#include <ATen/ops/any.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/zeros_like.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "stoker/base/error.h"

namespace stoker {
namespace {

const NamedTensor* find(const std::vector<NamedTensor>& tensors, std::string_view name) {
    const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
    return found == tensors.end() ? nullptr : &*found;
}

std::string shape_of(const at::Tensor& tensor) {
    return fmt::format("shape [{}]", fmt::join(tensor.sizes(), ", "));
}

constexpr const char* kWrongModel =
    "they belong to another model: set model.name, or model.hidden, as they were trained";

// Compares the names of both sides.
void require_names(const Model& model, const std::vector<NamedTensor>& given, const std::string& where) {
    const std::vector<NamedTensor> own = model.state();
    const auto is_own = [&](const NamedTensor& entry) {
        return find(own, entry.name) != nullptr ||
               std::ranges::find(model.tied_names(), entry.name) != model.tied_names().end();
    };
    const auto is_missing = [&](const NamedTensor& entry) { return find(given, entry.name) == nullptr; };
    const auto other = std::ranges::find_if_not(given, is_own);
    const auto count = static_cast<std::int64_t>(given.size()) - std::ranges::count_if(given, is_own);
    const std::string others = count == 0 ? "" : fmt::format("{} others, such as {}", count, other->name);
    if (const auto missing = std::ranges::find_if(own, is_missing); missing != own.end()) {
        throw InvalidArgument({.where = where,
                               .expected = fmt::format("{} of {}", missing->name, shape_of(missing->tensor)),
                               .got = fmt::format("none: {} of the model's {} tensors are missing{}",
                                                  std::ranges::count_if(own, is_missing), own.size(),
                                                  count == 0 ? "" : ", but " + others),
                               .hint = kWrongModel});
    }
    if (count != 0) {
        throw InvalidArgument({.where = where,
                               .expected = fmt::format("the {} tensors of the model, no others", own.size()),
                               .got = others,
                               .hint = kWrongModel});
    }
}

// The hint for a tensor of another shape. A convolution's weight is (out, in, k, k).
std::string shape_hint(const std::string& name, at::IntArrayRef own, at::IntArrayRef given) {
    std::vector<std::string> hints;
    if (name == "conv1.weight" && own.size() == 4 && given.size() == 4 && own[0] == given[0]) {
        if (own[1] == 1 && given[1] == 3) {
            hints.emplace_back("data.channels = 3 makes three equal channels of grey images");
        } else if (own[1] != given[1]) {
            hints.push_back(fmt::format("they are for images ({}, H, W), and these are ({}, H, W)", given[1], own[1]));
        }
        if (own[2] == 3 && given[2] == 7) {
            hints.emplace_back("a 7x7 conv1 is a ResNet's stem for large images: set model.stem = \"imagenet\"");
        } else if (own[2] == 7 && given[2] == 3) {
            hints.emplace_back("a 3x3 conv1 is a ResNet's stem for small images: set model.stem = \"cifar\"");
        }
    }
    return hints.empty() ? "they must come from the same model, number of classes, model.stem and image size"
                         : fmt::format("{}", fmt::join(hints, "; "));
}

std::string_view layer_of(std::string_view name) {
    return name.substr(0, name.rfind('.') == std::string_view::npos ? 0 : name.rfind('.'));
}

}  // namespace

void require_weights(const Model& model, const std::vector<NamedTensor>& given, const std::string& where) {
    require_names(model, given, where);
    for (const auto& [name, tensor] : model.state()) {
        const at::Tensor& other = find(given, name)->tensor;
        if (other.sizes() != tensor.sizes()) {
            throw InvalidArgument({.where = where,
                                   .expected = fmt::format("{} of {}", name, shape_of(tensor)),
                                   .got = shape_of(other),
                                   .hint = shape_hint(name, tensor.sizes(), other.sizes())});
        }
    }
}

void require_finite(const Model& model, const std::string& where) {
    const auto refuse = [&](const NamedTensor& entry, const char* got) {
        throw InvalidArgument({.where = where,
                               .expected = "finite weights",
                               .got = fmt::format("{} in {}", got, entry.name),
                               .hint = "the training that wrote them diverged: use earlier weights"});
    };
    for (const NamedTensor& entry : model.state()) {
        if (at::isnan(entry.tensor).any().item<bool>()) {
            refuse(entry, "nan");
        }
    }
    for (const NamedTensor& entry : model.parameters()) {
        if (at::isinf(entry.tensor).any().item<bool>()) {
            refuse(entry, "infinity");
        }
    }
}

void strip_prefixes(std::vector<NamedTensor>& given, const Model& model) {
    const auto all_begin = [](const std::vector<NamedTensor>& tensors, std::string_view prefix) {
        return std::ranges::all_of(tensors, [&](const NamedTensor& entry) { return entry.name.starts_with(prefix); });
    };
    const std::vector<NamedTensor> own = model.state();
    for (bool stripped = !given.empty(); stripped;) {
        stripped = false;
        for (const std::string_view prefix : {"module.", "_orig_mod.", "model."}) {
            if (all_begin(given, prefix) && !all_begin(own, prefix)) {
                for (NamedTensor& entry : given) {
                    entry.name.erase(0, prefix.size());
                }
                stripped = true;
            }
        }
    }
}

void add_batch_counts(std::vector<NamedTensor>& given, const Model& model) {
    constexpr std::string_view kCount = "num_batches_tracked";
    for (const auto& [name, tensor] : model.state()) {
        const bool counts = name.ends_with(kCount) && find(given, name) == nullptr;
        if (counts && find(given, name.substr(0, name.size() - kCount.size()) + "running_mean") != nullptr) {
            given.push_back({name, at::zeros_like(tensor)});
        }
    }
}

std::vector<std::string> mismatched_classifier(const Model& model, const std::vector<NamedTensor>& given,
                                               std::int64_t classes) {
    std::optional<std::string_view> layer;
    std::optional<std::int64_t> given_classes;
    std::vector<std::string> names;
    for (const auto& [name, tensor] : model.parameters()) {
        const NamedTensor* other = find(given, name);
        if (other == nullptr || other->tensor.sizes() == tensor.sizes()) {
            continue;
        }
        const at::IntArrayRef own_sizes = tensor.sizes();
        const at::IntArrayRef sizes = other->tensor.sizes();
        const bool only_outputs_differ =
            !sizes.empty() && sizes.size() == own_sizes.size() && sizes.slice(1) == own_sizes.slice(1);
        if (!only_outputs_differ || own_sizes[0] != classes || layer_of(name).empty() ||
            layer.value_or(layer_of(name)) != layer_of(name) || given_classes.value_or(sizes[0]) != sizes[0]) {
            return {};
        }
        layer = layer_of(name);
        given_classes = sizes[0];
        names.push_back(name);
    }
    const auto same_layer = [&](const NamedTensor& entry) { return layer_of(entry.name) == *layer; };
    const bool whole_layer =
        layer && static_cast<std::size_t>(std::ranges::count_if(model.parameters(), same_layer)) == names.size();
    return whole_layer ? names : std::vector<std::string>();
}

std::vector<std::string> missing_classifier(const Model& model, const std::vector<NamedTensor>& given,
                                            std::int64_t classes) {
    if (given.empty() || model.parameters().empty()) {
        return {};
    }
    const std::string_view layer = layer_of(model.parameters().back().name);
    std::vector<std::string> names;
    for (const auto& [name, tensor] : model.parameters()) {
        if (layer_of(name) == layer && !layer.empty() && tensor.dim() > 0 && tensor.size(0) == classes) {
            names.push_back(name);
        }
    }
    const auto missing = [&](const NamedTensor& entry) { return find(given, entry.name) == nullptr; };
    const auto in_layer = [&](const NamedTensor& entry) { return std::ranges::find(names, entry.name) != names.end(); };
    const std::vector<NamedTensor> own = model.state();
    const bool all_else =
        std::ranges::all_of(own, [&](const auto& entry) { return missing(entry) == in_layer(entry); });
    return all_else ? names : std::vector<std::string>();
}

}  // namespace stoker

// The graph "train" takes images or tokens, or several fields, then targets, parameters and buffers, and returns the
// loss, the gradient of each trained parameter, and the new buffers. The graph "eval" takes the same without targets,
// and returns the outputs.
#include "stoker/models/exported_model.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <utility>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr const char* kOtherSize = "change data.train_ops and data.val_ops, or export with an example of this size";

void require_options(const at::Tensor& target, const LossOptions& options) {
    if (options.label_smoothing != 0) {
        throw InvalidArgument({.where = "train.label_smoothing",
                               .expected = "0, because the loss of an exported model is in its file",
                               .got = fmt::to_string(options.label_smoothing),
                               .hint = "export the model with nn.CrossEntropyLoss(label_smoothing=...)"});
    }
    if (options.kind == LossKind::cross_entropy && target.is_floating_point()) {
        throw InvalidArgument({.where = "model.export",
                               .expected = "one class for each image",
                               .got = "class probabilities",
                               .hint = "remove train.mixup and train.cutmix"});
    }
}

std::string describe(const at::Tensor& tensor) {
    return fmt::format("{} [{}] on {}", at::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "),
                       tensor.device().str());
}

// A compiled graph does not check what it is given, and an interpreted one may broadcast it.
void require_batch_of(const ExportedInput& wanted, std::string_view name, const at::Tensor& given,
                      const std::string& path, const char* hint) {
    if (given.dim() == 0 || given.sizes().slice(1) != at::IntArrayRef(wanted.shape) ||
        given.scalar_type() != wanted.type) {
        throw InvalidArgument({.where = "model.export",
                               .expected = fmt::format("{} of {} ({}) a sample, for which {} was exported", name,
                                                       at::toString(wanted.type), fmt::join(wanted.shape, ", "), path),
                               .got = describe(given),
                               .hint = hint});
    }
}

// Returns the gradient as the optimisers and clipping need it, which change it in place: with the parameter's strides,
// in memory that nothing else uses. Copies only if one of the two requires it.
at::Tensor with_layout_of(const at::Tensor& parameter, const at::Tensor& gradient) {
    const bool exclusive = gradient.use_count() == 1 && gradient.storage().use_count() == 1 && !gradient.is_neg();
    const bool fits = exclusive && gradient.strides() == parameter.strides();
    return fits ? gradient : at::empty_like(parameter).copy_(gradient);
}

}  // namespace

ExportedModel::ExportedModel(const std::string& path, const Shape& input, const at::Device& device)
    : ExportedModel(path, input, device, read_exported_file(path)) {}

ExportedModel::ExportedModel(const std::string& path, const Shape& input, const at::Device& device,
                             const ExportedFile& file)
    : path_(path),
      device_(file.device),
      inputs_(file.inputs),
      target_(file.target),
      smallest_batch_(file.smallest_batch),
      train_(*file.zip, path, "train", file.compiled, device),
      eval_(*file.zip, path, "eval", file.compiled, device) {
    if (inputs_.size() == 1 && inputs_.front().shape != input) {
        throw InvalidArgument({.where = "model.export",
                               .expected = fmt::format("samples ({}), for which {} was exported",
                                                       fmt::join(inputs_.front().shape, ", "), path),
                               .got = fmt::format("({})", fmt::join(input, ", ")),
                               .hint = kOtherSize});
    }
    for (std::size_t i = 0; i < file.parameters.size(); ++i) {
        const at::Tensor value = parameter(file.parameters[i].name, file.parameters[i].tensor);
        value.requires_grad_(file.trained[i]);
        if (file.trained[i]) {
            trained_.push_back({file.parameters[i].name, value});
        }
    }
    for (const NamedTensor& entry : file.buffers) {
        buffer(entry.name, entry.tensor);
    }
}

// The inputs of a graph. `batch` is images or tokens, for the training graph also targets.
std::vector<at::Tensor> ExportedModel::with_state(std::vector<at::Tensor> batch) const {
    if (batch.front().device().type() != c10::Device(device_).type()) {
        throw InvalidArgument({.where = "model.export",
                               .expected = fmt::format("a run on {}, for which {} was exported", device_, path_),
                               .got = batch.front().device().str(),
                               .hint = "export the model with an example on that device, or set device"});
    }
    for (at::Tensor& tensor : batch) {
        tensor = tensor.contiguous();
    }
    for (const auto* list : {&parameters(), &buffers()}) {
        for (const NamedTensor& entry : *list) {
            batch.push_back(entry.tensor);
        }
    }
    return batch;
}

std::vector<std::string> ExportedModel::inputs() const {
    std::vector<std::string> names;
    for (const ExportedInput& input : inputs_) {
        names.push_back(input.name);
    }
    return names.size() > 1 ? names : std::vector<std::string>();
}

std::vector<at::Tensor> ExportedModel::take_inputs(const DeviceBatch& batch) const {
    std::vector<at::Tensor> taken = named_inputs(batch, inputs());
    for (std::size_t i = 0; i < taken.size() && taken.size() > 1; ++i) {
        require_batch_of(inputs_[i], inputs_[i].name, taken[i], path_, kOtherSize);
    }
    return taken;
}

void ExportedModel::require_target(const at::Tensor& target) const {
    if (target_) {
        require_batch_of(*target_, "targets", target, path_,
                         "set task to what the loss was written for, or export with such targets in the example");
    }
}

at::Tensor ExportedModel::forward(const at::Tensor& input) {
    return outputs({.input = input});
}

at::Tensor ExportedModel::outputs(const DeviceBatch& batch) {
    const std::vector<at::Tensor> outputs = eval_.run(with_state(take_inputs(batch)));
    if (outputs.size() != 1) {
        throw DataError({.path = path_}, {.where = "model.export",
                                          .expected = "one output of the graph \"eval\"",
                                          .got = fmt::to_string(outputs.size())});
    }
    return outputs.front();
}

at::Tensor ExportedModel::loss(const DeviceBatch& batch, const LossOptions& options) {
    require_options(batch.target, options);
    require_target(batch.target);
    if (batch.size() < smallest_batch_) {
        throw InvalidArgument(
            {.where = "model.export",
             .expected = fmt::format("batches of at least {} samples, for its batch norm", smallest_batch_),
             .got = fmt::to_string(batch.size()),
             .hint = "set data.drop_last = true, another data.batch_size, or a lower train.accumulate"});
    }
    std::vector<at::Tensor> given = take_inputs(batch);
    given.push_back(batch.target);
    std::vector<at::Tensor> outputs = train_.run(with_state(std::move(given)));
    require_outputs(outputs);
    const std::size_t before_buffers = 1 + trained_.size();
    const c10::NoGradGuard no_grad;
    for (std::size_t i = 0; i < buffers().size(); ++i) {
        at::Tensor own = buffers()[i].tensor;
        own.copy_(outputs[before_buffers + i]);
    }
    outputs.resize(before_buffers);
    gradients_.assign(outputs.begin() + 1, outputs.end());
    return outputs.front();
}

// Checks the outputs of the training graph: a damaged file must not write beyond a parameter or buffer.
void ExportedModel::require_outputs(const std::vector<at::Tensor>& outputs) const {
    const std::size_t before_buffers = 1 + trained_.size();
    if (outputs.size() != before_buffers + buffers().size()) {
        throw DataError({.path = path_}, {.where = "model.export",
                                          .expected = fmt::format("{} outputs of the graph \"train\"",
                                                                  before_buffers + buffers().size()),
                                          .got = fmt::to_string(outputs.size())});
    }
    if (outputs.front().dim() != 0 || !outputs.front().is_floating_point()) {
        throw DataError({.path = path_},
                        {.where = "model.export", .expected = "a scalar loss", .got = describe(outputs.front())});
    }
    for (std::size_t i = 1; i < outputs.size(); ++i) {
        const bool gradient = i < before_buffers;
        const NamedTensor& own = gradient ? trained_[i - 1] : buffers()[i - before_buffers];
        const at::Tensor& given = outputs[i];
        if (given.sizes() != own.tensor.sizes() || given.scalar_type() != own.tensor.scalar_type() ||
            given.device() != own.tensor.device() || given.layout() != at::kStrided) {
            throw DataError(
                {.path = path_, .key = own.name},
                {.where = "model.export",
                 .expected = fmt::format("{} {}", gradient ? "a gradient" : "a buffer", describe(own.tensor)),
                 .got = describe(given)});
        }
    }
}

void ExportedModel::require_autograd() const {
    throw Unsupported(
        {.where = "model.export",
         .expected = "one process for an exported model",
         .got = "several, which train one model",
         .hint = "its graph computes the gradients, so they cannot be averaged during the backward pass"});
}

void ExportedModel::backward(const at::Tensor& /*loss*/, const at::Tensor& gradient) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    for (std::size_t i = 0; i < trained_.size(); ++i) {
        const at::Tensor& parameter = trained_[i].tensor;
        if (!parameter.requires_grad()) {  // frozen by the recipe
            continue;
        }
        at::Tensor& sum = parameter.mutable_grad();
        at::Tensor own = std::exchange(gradients_[i], {});
        if (gradient.defined()) {
            own = own.mul(gradient);
        }
        if (sum.defined()) {
            sum.add_(own);
        } else {
            sum = with_layout_of(parameter, own);
        }
    }
    gradients_.clear();
}

}  // namespace stoker

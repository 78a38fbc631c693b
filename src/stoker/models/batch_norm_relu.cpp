// The node keeps x and, with a shortcut, one bit for each value that relu let pass; the result is not kept.
#include "stoker/models/batch_norm_relu.h"

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "stoker/base/error.h"
#include "stoker/bridge/tensor.h"
#include "stoker/models/kernels/batch_norm_cuda.h"

namespace stoker {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using MaybeTensor = std::optional<at::Tensor>;

BatchNormShape shape_of(const at::Tensor& x) {
    return {.rows = x.numel() / x.size(1),
            .channels = static_cast<int>(x.size(1)),
            .dtype = dtype_of_scalar(x.scalar_type())};
}

void* current_stream(const at::Tensor& x) {
    return c10::impl::VirtualGuardImpl(x.device().type()).getStream(x.device()).native_handle();
}

// The kernels read vectors of 16 bytes.
bool aligned(const at::Tensor& x) {
    return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

// (N, C, H, W) in memory as (N, H, W, C), aligned.
at::Tensor channels_last(const at::Tensor& x) {
    const at::Tensor last = x.contiguous(at::MemoryFormat::ChannelsLast);
    return aligned(last) ? last : last.clone();
}

const float* floats(const at::Tensor& tensor) {
    return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr;
}

struct Fused : torch::autograd::Function<Fused> {
    static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& gamma,
                              const at::Tensor& beta, const MaybeTensor& shortcut, const MaybeTensor& running_mean,
                              const MaybeTensor& running_var, bool relu) {
        const c10::DeviceGuard on_device(x.device());
        const BatchNormShape shape = shape_of(x);
        const at::Tensor other = shortcut ? channels_last(*shortcut) : at::Tensor();
        const auto per_channel = gamma.options().requires_grad(false);
        const at::Tensor mean = at::empty({shape.channels}, per_channel);
        const at::Tensor inv_std = at::empty({shape.channels}, per_channel);
        const at::Tensor workspace = at::empty({batch_norm_workspace(shape)}, per_channel);
        at::Tensor y = at::empty_like(x);
        at::Tensor mask;
        if (relu && other.defined()) {
            mask = at::empty({batch_norm_mask_bytes(shape)}, per_channel.dtype(at::kByte));
        }
        batch_norm_forward_cuda(shape,
                                {.x = x.const_data_ptr(),
                                 .shortcut = other.defined() ? other.const_data_ptr() : nullptr,
                                 .gamma = floats(gamma),
                                 .beta = floats(beta),
                                 .running_mean = running_mean ? running_mean->mutable_data_ptr<float>() : nullptr,
                                 .running_var = running_var ? running_var->mutable_data_ptr<float>() : nullptr,
                                 .momentum = static_cast<float>(kBatchNormMomentum),
                                 .eps = static_cast<float>(kBatchNormEps),
                                 .relu = relu,
                                 .y = y.mutable_data_ptr(),
                                 .mask = mask.defined() ? mask.mutable_data_ptr<std::uint8_t>() : nullptr,
                                 .mean = mean.mutable_data_ptr<float>(),
                                 .inv_std = inv_std.mutable_data_ptr<float>(),
                                 .workspace = workspace.mutable_data_ptr<float>()},
                                current_stream(x));
        context->save_for_backward({x, gamma, beta, mean, inv_std, mask});
        context->saved_data["relu"] = relu;
        context->saved_data["shortcut"] = other.defined();
        return y;
    }

    static variable_list backward(AutogradContext* context, const variable_list& gradients) {
        if (c10::GradMode::is_enabled()) {  // the gradients would have no history
            throw Unsupported({.where = "batch norm", .expected = "first gradients on a GPU", .got = "create_graph"});
        }
        const variable_list saved = context->get_saved_variables();
        const at::Tensor& x = saved[0];
        const at::Tensor& mask = saved[5];
        const c10::DeviceGuard on_device(x.device());
        const BatchNormShape shape = shape_of(x);
        const at::Tensor dy = channels_last(gradients[0]);
        const at::Tensor dx = at::empty_like(x);
        const at::Tensor dgamma = at::empty_like(saved[1]);
        const at::Tensor dbeta = at::empty_like(saved[2]);
        const at::Tensor workspace = at::empty({batch_norm_workspace(shape)}, saved[3].options());
        const bool relu = context->saved_data["relu"].toBool();
        // Without relu the shortcut's gradient is dy itself.
        at::Tensor dshortcut;
        if (context->saved_data["shortcut"].toBool()) {
            dshortcut = relu ? at::empty_like(x) : dy;
        }
        batch_norm_backward_cuda(shape,
                                 {.dy = dy.const_data_ptr(),
                                  .x = x.const_data_ptr(),
                                  .mask = mask.defined() ? mask.const_data_ptr<std::uint8_t>() : nullptr,
                                  .gamma = floats(saved[1]),
                                  .beta = floats(saved[2]),
                                  .mean = floats(saved[3]),
                                  .inv_std = floats(saved[4]),
                                  .relu = relu,
                                  .dx = dx.mutable_data_ptr(),
                                  .dshortcut = relu && dshortcut.defined() ? dshortcut.mutable_data_ptr() : nullptr,
                                  .dgamma = dgamma.mutable_data_ptr<float>(),
                                  .dbeta = dbeta.mutable_data_ptr<float>(),
                                  .workspace = workspace.mutable_data_ptr<float>()},
                                 current_stream(x));
        return {dx, dgamma, dbeta, dshortcut, at::Tensor(), at::Tensor(), at::Tensor()};
    }
};

// The kernels read float32 parameters and channels-last memory, all on one device.
bool takes(const at::Tensor& x, const BatchNorm& norm, const at::Tensor& shortcut) {
    const auto type = x.scalar_type();
    if (!x.is_cuda() || !x.is_contiguous(at::MemoryFormat::ChannelsLast) || !aligned(x) ||
        (type != at::kFloat && type != at::kHalf && type != at::kBFloat16)) {
        return false;
    }
    for (const at::Tensor& tensor : {norm.gamma, norm.beta, norm.running_mean, norm.running_var}) {
        if (tensor.defined() && (tensor.scalar_type() != at::kFloat || tensor.device() != x.device() ||
                                 !tensor.is_contiguous() || tensor.numel() != x.size(1))) {
            return false;
        }
    }
    const bool fits = !shortcut.defined() || (shortcut.scalar_type() == type && shortcut.device() == x.device() &&
                                              shortcut.sizes() == x.sizes());
    const c10::DeviceGuard on_device(x.device());
    return fits && norm.gamma.defined() && norm.beta.defined() && batch_norm_cuda_takes(shape_of(x));
}

at::Tensor normalized(const at::Tensor& x, const BatchNorm& norm, const BatchNormOptions& options) {
    if (options.training && options.sum != nullptr) {
        return sync_batch_norm(x, norm, *options.sum, options.update_running);
    }
    const bool running = options.update_running || !options.training;
    return at::batch_norm(x, norm.gamma, norm.beta, running ? std::optional(norm.running_mean) : std::nullopt,
                          running ? std::optional(norm.running_var) : std::nullopt, options.training,
                          kBatchNormMomentum, kBatchNormEps, /*cudnn_enabled=*/true);
}

}  // namespace

at::Tensor batch_norm_relu(const at::Tensor& x, const BatchNorm& norm, const at::Tensor& shortcut,
                           const BatchNormOptions& options) {
    if (!options.training || options.sum != nullptr || !takes(x, norm, shortcut)) {
        return batch_norm_relu_reference(x, norm, shortcut, options);
    }
    const auto given = [](const at::Tensor& tensor, bool use) {
        return use && tensor.defined() ? MaybeTensor(tensor) : std::nullopt;
    };
    return Fused::apply(x, norm.gamma, norm.beta, given(shortcut, true),
                        given(norm.running_mean, options.update_running),
                        given(norm.running_var, options.update_running), options.relu);
}

at::Tensor batch_norm_relu_reference(const at::Tensor& x, const BatchNorm& norm, const at::Tensor& shortcut,
                                     const BatchNormOptions& options) {
    at::Tensor y = normalized(x, norm, options);
    if (shortcut.defined()) {
        y.add_(shortcut);
    }
    return options.relu ? y.relu_() : y;
}

}  // namespace stoker

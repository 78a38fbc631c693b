// Workspace comes from LibTorch's allocator in each step: in a captured step from the graph's own pool.
#include "stoker/train/step/fused_device_step.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <vector>

#include "stoker/fused/mlp_cuda/fused_mlp_cuda.h"

namespace stoker {

bool FusedDeviceStep::takes(std::int64_t samples) const {
    const c10::DeviceGuard on_device(layers_.layers.front().weight.value.device());
    return why_no_fused_mlp_cuda(layers_.options, samples).empty();
}

void FusedDeviceStep::run(const DeviceBatch& batch, const at::Tensor& lr, const at::Tensor& mean) const {
    const at::Device device = mean.device();
    const c10::DeviceGuard on_device(device);
    const at::Tensor x = fused_input(batch, layers_.options.widths.front());
    const at::Tensor label = batch.target.contiguous();  // (N)
    const at::Tensor workspace = at::empty({fused_mlp_cuda_workspace(layers_.options, batch.size())}, mean.options());
    std::vector<FusedMlpCudaLayer> layers;
    for (const FusedLayerTensors& layer : layers_.layers) {
        layers.push_back({.memory = layer.memory(),
                          .weight_steps = layer.weight.steps.mutable_data_ptr<float>(),
                          .bias_steps = layer.bias.steps.mutable_data_ptr<float>()});
    }
    fused_mlp_step_cuda(layers_.options, layers,
                        {.batch = {.x = x.const_data_ptr<float>(),
                                   .label = label.const_data_ptr<std::int64_t>(),
                                   .samples = batch.size()},
                         .lr = lr.const_data_ptr<float>(),
                         .mean_loss = mean.mutable_data_ptr<float>(),
                         .workspace = workspace.mutable_data_ptr<float>()},
                        c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle());
}

}  // namespace stoker

#include "stoker/bridge/pixels.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>

#include "stoker/bridge/tensor.h"
#include "stoker/ops/colors_cuda.h"
#include "stoker/ops/gather_cuda.h"
#include "stoker/ops/normalize_cuda.h"

namespace stoker {
namespace {

at::Tensor empty_floats(const at::Tensor& bytes, const DeferredNormalize& deferred, at::ScalarType type) {
    const auto format = deferred.layout == Layout::hwc ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    return at::empty(bytes.sizes(), bytes.options().dtype(type).memory_format(format));
}

at::Tensor run_kernel(const at::Tensor& given, const DeferredNormalize& deferred, at::ScalarType type) {
    const at::Tensor bytes = given.contiguous(at::MemoryFormat::ChannelsLast);  // (N, H, W, C) in memory
    at::Tensor floats = empty_floats(bytes, deferred, type);
    const auto side = [&](std::int64_t i) { return static_cast<int>(bytes.size(i)); };
    const c10::impl::VirtualGuardImpl guard(bytes.device().type());
    normalize_cuda({.images = bytes.const_data_ptr<std::uint8_t>(),
                    .n = side(0),
                    .h = side(2),
                    .w = side(3),
                    .c = side(1),
                    .factors = deferred.factors,
                    .out = floats.mutable_data_ptr(),
                    .dtype = dtype_of_scalar(type),
                    .layout = deferred.layout},
                   guard.getStream(bytes.device()).native_handle());
    return floats;
}

at::Tensor normalized(const at::Tensor& bytes, const DeferredNormalize& deferred, at::ScalarType type) {
    if (bytes.dim() == 5) {  // clips: their frames are images
        return normalized(bytes.flatten(0, 1), deferred, type).unflatten(0, bytes.sizes().slice(0, 2));
    }
    const bool kernel = bytes.is_cuda() && normalize_cuda_works();
    return kernel ? run_kernel(bytes, deferred, type) : normalize_pixels_reference(bytes, deferred, type);
}

// Queues the kernel on a GPU, or runs the reference implementation.
template <typename OpBatch>
void run_op(const at::Device& device, const OpBatch& batch, void (*kernel)(const OpBatch&, void*),
            void (*reference)(const OpBatch&)) {
    if (device.is_cuda()) {
        const c10::impl::VirtualGuardImpl guard(device.type());
        kernel(batch, guard.getStream(device).native_handle());
    } else {
        reference(batch);
    }
}

// draws (N, sizeof(GatherDraw)). The result: floats of `type`; bytes (N, H, W, C) in memory where colours change.
at::Tensor run_gather(const at::Tensor& draws, const DeferredNormalize& deferred, at::ScalarType type) {
    const DeferredGather& from = *deferred.gather;
    const ImageBlock& images = *from.images;
    const Layout layout = from.ops.colors ? Layout::hwc : deferred.layout;
    const auto format = layout == Layout::hwc ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    at::Tensor out = at::empty({draws.size(0), images.channels, from.to.height, from.to.width},
                               draws.options().dtype(type).memory_format(format));
    const GatherBatch batch{.images = images.data,
                            .from = images.size,
                            .channels = images.channels,
                            .draws = reinterpret_cast<const GatherDraw*>(draws.const_data_ptr<std::uint8_t>()),
                            .n = static_cast<int>(draws.size(0)),
                            .to = from.to,
                            .ops = from.ops,
                            .factors = deferred.factors,
                            .out = out.mutable_data_ptr(),
                            .dtype = dtype_of_scalar(type),
                            .layout = layout};
    run_op(draws.device(), batch, gather_cuda, gather);
    return out;
}

at::Tensor gathered(const at::Tensor& given, const DeferredNormalize& deferred, at::ScalarType type) {
    const at::Tensor draws = given.contiguous();
    if (!deferred.gather->ops.colors) {
        return run_gather(draws, deferred, type);
    }
    at::Tensor bytes = run_gather(draws, deferred, at::kByte);
    if (draws.size(0) == 0) {
        return normalized(bytes, deferred, type);
    }
    const auto* const first = reinterpret_cast<const GatherDraw*>(draws.const_data_ptr<std::uint8_t>());
    const ColorsBatch batch{.draws = &first->output,
                            .stride = sizeof(GatherDraw),
                            .n = static_cast<int>(draws.size(0)),
                            .size = deferred.gather->to,
                            .channels = deferred.gather->images->channels,
                            .erased_value = deferred.gather->ops.erased_value,
                            .images = bytes.mutable_data_ptr<std::uint8_t>()};
    run_op(draws.device(), batch, colors_cuda, colors);
    return normalized(bytes, deferred, type);
}

void normalize_field(at::Tensor& tensor, std::optional<DeferredNormalize>& deferred, at::ScalarType type) {
    tensor = pixels_of(tensor, deferred, type);
    deferred.reset();
}

}  // namespace

at::Tensor pixels_of(const at::Tensor& field, const std::optional<DeferredNormalize>& deferred, at::ScalarType type) {
    if (!deferred) {
        return field;
    }
    const c10::OptionalDeviceGuard on_device(field.device());
    if (deferred->gather) {
        return gathered(field, *deferred, type);
    }
    return normalized(field, *deferred, type);
}

void normalize_pixels(DeviceBatch& batch, at::ScalarType type) {
    normalize_field(batch.input, batch.late, type);
    for (DeviceField& field : batch.fields) {
        normalize_field(field.tensor, field.late, type);
    }
}

// Two roundings for each value, as on the CPU. Factors are numbers and not tensors, which a captured step would have to
// keep.
at::Tensor normalize_pixels_reference(const at::Tensor& bytes, const DeferredNormalize& deferred, at::ScalarType type) {
    const at::Tensor floats = empty_floats(bytes, deferred, at::kFloat);
    for (std::int64_t c = 0; c < bytes.size(1); ++c) {
        const auto channel = static_cast<std::size_t>(c);
        at::Tensor values = floats.select(1, c);  // (N, H, W)
        values.copy_(bytes.select(1, c)).mul_(deferred.factors.scale[channel]).add_(deferred.factors.bias[channel]);
    }
    return floats.to(type);
}

}  // namespace stoker

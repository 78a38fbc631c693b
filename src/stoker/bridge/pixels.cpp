#include "stoker/bridge/pixels.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>

#include "stoker/bridge/tensor.h"
#include "stoker/ops/gather_cuda.h"
#include "stoker/ops/normalize_cuda.h"

namespace stoker {
namespace {

at::Tensor empty_floats(const at::Tensor& bytes, const LateNormalize& late, at::ScalarType type) {
    const auto format = late.layout == Layout::hwc ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    return at::empty(bytes.sizes(), bytes.options().dtype(type).memory_format(format));
}

at::Tensor run_kernel(const at::Tensor& given, const LateNormalize& late, at::ScalarType type) {
    const at::Tensor bytes = given.contiguous(at::MemoryFormat::ChannelsLast);  // (N, H, W, C) in memory
    at::Tensor floats = empty_floats(bytes, late, type);
    const auto side = [&](std::int64_t i) { return static_cast<int>(bytes.size(i)); };
    const c10::impl::VirtualGuardImpl guard(bytes.device().type());
    normalize_cuda({.images = bytes.const_data_ptr<std::uint8_t>(),
                    .n = side(0),
                    .h = side(2),
                    .w = side(3),
                    .c = side(1),
                    .factors = late.factors,
                    .out = floats.mutable_data_ptr(),
                    .dtype = dtype_of_scalar(type),
                    .layout = late.layout},
                   guard.getStream(bytes.device()).native_handle());
    return floats;
}

// draws (N, sizeof(GatherDraw))
at::Tensor run_gather(const at::Tensor& given, const LateNormalize& late, at::ScalarType type) {
    const at::Tensor draws = given.contiguous();
    const LateGather& from = *late.gather;
    const ImageBlock& images = *from.images;
    const auto format = late.layout == Layout::hwc ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    at::Tensor floats = at::empty({draws.size(0), images.channels, from.to.height, from.to.width},
                                  draws.options().dtype(type).memory_format(format));
    const GatherBatch batch{.images = images.data,
                            .from = images.size,
                            .channels = images.channels,
                            .draws = reinterpret_cast<const GatherDraw*>(draws.const_data_ptr<std::uint8_t>()),
                            .n = static_cast<int>(draws.size(0)),
                            .to = from.to,
                            .ops = from.ops,
                            .factors = late.factors,
                            .out = floats.mutable_data_ptr(),
                            .dtype = dtype_of_scalar(type),
                            .layout = late.layout};
    if (draws.is_cuda()) {
        const c10::impl::VirtualGuardImpl guard(draws.device().type());
        gather_cuda(batch, guard.getStream(draws.device()).native_handle());
    } else {
        gather(batch);
    }
    return floats;
}

void normalize_field(at::Tensor& tensor, std::optional<LateNormalize>& late, at::ScalarType type) {
    tensor = pixels_of(tensor, late, type);
    late.reset();
}

}  // namespace

at::Tensor pixels_of(const at::Tensor& field, const std::optional<LateNormalize>& late, at::ScalarType type) {
    if (!late) {
        return field;
    }
    const c10::OptionalDeviceGuard on_device(field.device());
    if (late->gather) {
        return run_gather(field, *late, type);
    }
    const bool kernel = field.is_cuda() && normalize_cuda_works();
    return kernel ? run_kernel(field, *late, type) : normalize_pixels_reference(field, *late, type);
}

void normalize_pixels(DeviceBatch& batch, at::ScalarType type) {
    normalize_field(batch.input, batch.late, type);
    for (DeviceField& field : batch.fields) {
        normalize_field(field.tensor, field.late, type);
    }
}

// Two roundings for each value, as on the CPU. Factors are numbers and not tensors, which a captured step would have to
// keep.
at::Tensor normalize_pixels_reference(const at::Tensor& bytes, const LateNormalize& late, at::ScalarType type) {
    const at::Tensor floats = empty_floats(bytes, late, at::kFloat);
    for (std::int64_t c = 0; c < bytes.size(1); ++c) {
        const auto channel = static_cast<std::size_t>(c);
        at::Tensor values = floats.select(1, c);  // (N, H, W)
        values.copy_(bytes.select(1, c)).mul_(late.factors.scale[channel]).add_(late.factors.bias[channel]);
    }
    return floats.to(type);
}

}  // namespace stoker

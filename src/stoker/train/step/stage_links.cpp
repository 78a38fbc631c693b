#include "stoker/train/step/stage_links.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <fmt/format.h>
#include <span>
#include <utility>

#include "stoker/base/error.h"

namespace stoker {
namespace {

// The same memory as a tensor that is contiguous, (N, H, W, C) where it is channels-last.
at::Tensor as_message(const at::Tensor& values, at::MemoryFormat format) {
    return format == at::MemoryFormat::ChannelsLast ? values.permute({0, 2, 3, 1}) : values;
}

std::string describe(std::span<const std::int64_t> shape, at::ScalarType type) {
    return fmt::format("{} (samples{}{})", c10::toString(type), shape.empty() ? "" : ", ", fmt::join(shape, ", "));
}

// The other side makes a tensor of `boundary`, and would read other bytes as that.
void require_message(const at::Tensor& values, const StageBoundary& boundary, int from, int to) {
    const auto sizes = std::span(values.sizes().data(), static_cast<std::size_t>(values.dim()));
    const auto own = sizes.subspan(sizes.empty() ? 0 : 1);
    if (sizes.empty() || values.scalar_type() != boundary.type || !std::ranges::equal(own, boundary.shape)) {
        throw InternalError({.where = fmt::format("the message of stage {} to stage {}", from, to),
                             .expected = describe(boundary.shape, boundary.type),
                             .got = sizes.empty() ? "a scalar" : describe(own, values.scalar_type())});
    }
}

void wait_for(std::function<void()>& under_way) {
    if (under_way) {
        std::exchange(under_way, nullptr)();
    }
}

}  // namespace

at::Tensor StageLinks::receive(const StageBoundary& boundary, std::int64_t samples, int from) const {
    std::vector<std::int64_t> shape = boundary.shape;
    shape.insert(shape.begin(), samples);
    at::Tensor values = at::empty(
        shape, at::TensorOptions().dtype(boundary.type).memory_format(boundary.format).device(boundary.device));
    if (values.numel() > 0) {
        stages_.start_receive(as_message(values, boundary.format), from)();
    }
    return values;
}

void StageLinks::send(const at::Tensor& values, const StageBoundary& boundary, int to,
                      std::function<void()>& under_way) const {
    require_message(values, boundary, stages_.rank(), to);
    wait_for(under_way);
    if (values.numel() > 0) {
        const at::Tensor sent = values.detach().contiguous(boundary.format);
        under_way = stages_.start_send(as_message(sent, boundary.format), to);
    }
}

at::Tensor StageLinks::receive_input(std::int64_t samples) const {
    return receive(shapes_.input, samples, stages_.rank() - 1);
}

at::Tensor StageLinks::receive_gradient(std::int64_t samples) const {
    return receive(shapes_.output, samples, stages_.rank() + 1);
}

void StageLinks::send_output(const at::Tensor& output) {
    send(output, shapes_.output, stages_.rank() + 1, output_under_way_);
}

void StageLinks::send_gradient(const at::Tensor& gradient) {
    send(gradient, shapes_.input, stages_.rank() - 1, gradient_under_way_);
}

void StageLinks::flush() {
    wait_for(output_under_way_);
    wait_for(gradient_under_way_);
}

}  // namespace stoker

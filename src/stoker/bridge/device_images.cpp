// Copies are from pageable memory: they return when they are done, and so need no event.
#include "stoker/bridge/device_images.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "stoker/base/byte_text.h"
#include "stoker/bridge/device_memory.h"
#include "stoker/ops/colors_cuda.h"
#include "stoker/ops/gather_cuda.h"
#include "stoker/pipeline/deferred_images.h"

namespace stoker {
namespace {

bool on_cpu = false;  // ImagesOnCpu

std::atomic<std::int64_t> held_bytes = 0;  // of all images on devices

struct HeldImages {
    explicit HeldImages(at::Tensor tensor) : images(std::move(tensor)) {
        held_bytes += static_cast<std::int64_t>(images.nbytes());
    }
    ~HeldImages() { held_bytes -= static_cast<std::int64_t>(images.nbytes()); }
    HeldImages(const HeldImages&) = delete;
    HeldImages& operator=(const HeldImages&) = delete;

    at::Tensor images;
};

// `works`: whether the build has the kernels for the current device.
std::string why_not_on(const at::Device& device, bool (*works)()) {
    if (!device.is_cuda()) {
        return device.is_cpu() && on_cpu ? "" : "this run is on " + device.str();
    }
    if (!c10::impl::hasDeviceGuardImpl(device.type())) {
        return "this LibTorch is without CUDA";
    }
    const c10::OptionalDeviceGuard on_device(device);
    return works() ? "" : "this build has no kernels for " + device.str();
}

}  // namespace

ImagesOnCpu::ImagesOnCpu() {
    on_cpu = true;
}

ImagesOnCpu::~ImagesOnCpu() {
    on_cpu = false;
}

std::string why_no_images_on(const at::Device& device) {
    return why_not_on(device, [] { return gather_cuda_works() && colors_cuda_works(); });
}

std::string why_no_decoder_on(const at::Device& device) {
    return why_not_on(device, make_images_cuda_works);
}

std::string DeviceImages::why_too_small(std::int64_t bytes) const {
    const std::optional<std::int64_t> free = free_device_bytes(device_);
    const std::int64_t held = held_bytes;  // by the training images, if this is for validation images
    if (!free || bytes <= (*free + held) / 2 - held) {
        return "";
    }
    return fmt::format("its images take {}, more than half of the {} that are free on {}{}", byte_text(bytes),
                       byte_text(*free + held), device_.str(),
                       held > 0 ? ", with the " + byte_text(held) + " of other images there" : "");
}

std::shared_ptr<const ImageBlock> DeviceImages::allocate(std::int64_t count, ImageSize size, int channels) {
    images_ =
        at::empty({count, size.height, size.width, channels}, at::TensorOptions().dtype(at::kByte).device(device_));
    return std::make_shared<const ImageBlock>(ImageBlock{.data = images_.const_data_ptr<std::uint8_t>(),
                                                         .count = count,
                                                         .size = size,
                                                         .channels = channels,
                                                         .memory = std::make_shared<HeldImages>(images_)});
}

void DeviceImages::write(std::int64_t first, std::span<const std::byte> images) {
    const std::int64_t each = images_.numel() / images_.size(0);
    const auto bytes = static_cast<std::int64_t>(images.size());
    const at::Tensor to = images_.view({-1}).narrow(0, first * each, bytes);
    // Only read from.
    to.copy_(at::from_blob(const_cast<std::byte*>(images.data()), {bytes}, at::TensorOptions().dtype(at::kByte)));
}

}  // namespace stoker

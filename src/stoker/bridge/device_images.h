// Memory on a device for all images of a data set (data.cache = "device"); whether a device decodes.
#pragma once

#include <ATen/core/Tensor.h>

#include "stoker/pipeline/cache/image_memory.h"

namespace stoker {

// Why images cannot be kept on this device: it is a CPU, or this build lacks kernels for it. Empty if they can.
std::string why_no_images_on(const at::Device& device);

// Why this device cannot decode images (DeviceCopier); empty where it can.
std::string why_no_decoder_on(const at::Device& device);

// A tensor (count, H, W, C) of bytes. All of them together may take half of the memory that is free without them: the
// other half is for the model and its activations.
class DeviceImages final : public ImageMemory {
  public:
    explicit DeviceImages(const at::Device& device) : device_(device) {}

    std::string why_too_small(std::int64_t bytes) const override;
    std::shared_ptr<const ImageBlock> allocate(std::int64_t count, ImageSize size, int channels) override;
    void write(std::int64_t first, std::span<const std::byte> images) override;

  private:
    at::Device device_;
    at::Tensor images_;
};

// For tests: during its lifetime images can be on the CPU, and be decoded there, as on a device.
class ImagesOnCpu {
  public:
    ImagesOnCpu();
    ImagesOnCpu(const ImagesOnCpu&) = delete;
    ImagesOnCpu& operator=(const ImagesOnCpu&) = delete;
    ~ImagesOnCpu();
};

}  // namespace stoker

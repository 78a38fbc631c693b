// Images of one size in one block of memory, which may be a device's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "stoker/ops/resize.h"

namespace stoker {

struct ImageBlock {
    const std::uint8_t* data = nullptr;  // (count, size.height, size.width, channels)
    std::int64_t count = 0;
    ImageSize size{};
    int channels = 0;
    std::shared_ptr<const void> memory = nullptr;  // of `data`
};

// Gives memory for one block. Implemented for tensors in bridge/device_images.h.
class ImageMemory {
  public:
    virtual ~ImageMemory() = default;
    // Why the memory does not hold so many bytes: "60 GiB on cuda:0, where 20 GiB are free". Empty if it does.
    virtual std::string why_too_small(std::int64_t bytes) const = 0;
    virtual std::shared_ptr<const ImageBlock> allocate(std::int64_t count, ImageSize size, int channels) = 0;
    // Copies images, from number `first` of the block on. Done when it returns. Thread-safe.
    virtual void write(std::int64_t first, std::span<const std::byte> images) = 0;
};

}  // namespace stoker

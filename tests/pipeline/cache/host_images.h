// Host memory in the place of a device's, for tests of images that the loader does not hold.
#pragma once

#include <algorithm>
#include <mutex>
#include <vector>

#include "stoker/pipeline/cache/image_memory.h"

namespace stoker::testing {

class HostImages final : public ImageMemory {
  public:
    std::string why_too_small(std::int64_t bytes) const override { return bytes > room ? "there is no room" : ""; }

    std::shared_ptr<const ImageBlock> allocate(std::int64_t count, ImageSize size, int channels) override {
        each_ = static_cast<std::size_t>(size.height) * static_cast<std::size_t>(size.width) *
                static_cast<std::size_t>(channels);
        bytes_ = std::make_shared<std::vector<std::byte>>(each_ * static_cast<std::size_t>(count), std::byte{0xEE});
        return std::make_shared<const ImageBlock>(
            ImageBlock{.data = reinterpret_cast<const std::uint8_t*>(bytes_->data()),
                       .count = count,
                       .size = size,
                       .channels = channels,
                       .memory = bytes_});
    }

    void write(std::int64_t first, std::span<const std::byte> images) override {
        const std::lock_guard lock(mutex_);
        std::ranges::copy(images,
                          bytes_->begin() + static_cast<std::ptrdiff_t>(first) * static_cast<std::ptrdiff_t>(each_));
        ++writes;
    }

    std::int64_t room = 1 << 30;
    int writes = 0;

  private:
    std::mutex mutex_;
    std::size_t each_ = 0;
    std::shared_ptr<std::vector<std::byte>> bytes_;
};

}  // namespace stoker::testing

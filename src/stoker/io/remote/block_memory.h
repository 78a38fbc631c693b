// An allocator for blocks of 1 MiB that uses huge pages. A block is written once and copied out once, and the faults of
// small pages would cost more than both.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include "stoker/base/buffer.h"

namespace stoker {

class BlockMemory final : public Allocator {
  public:
    BlockMemory() = default;
    BlockMemory(const BlockMemory&) = delete;
    BlockMemory& operator=(const BlockMemory&) = delete;
    ~BlockMemory() override;

    std::byte* allocate(std::size_t bytes) override;
    void deallocate(std::byte* data, std::size_t bytes) noexcept override;

  private:
    struct Slab {
        std::size_t size = 0;
        std::size_t used = 0;  // allocated from the front; freed pieces are not allocated again
        std::size_t live = 0;  // number of pieces in use
    };

    std::mutex mutex_;
    std::map<std::byte*, Slab> slabs_;
    std::byte* current_ = nullptr;  // the slab that new pieces come from
};

}  // namespace stoker

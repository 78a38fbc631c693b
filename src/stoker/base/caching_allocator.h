// Keeps freed blocks for later requests of the same size: for memory that takes milliseconds to allocate, and whose
// release waits for a device, as pinned memory's does.
#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "stoker/base/buffer.h"

namespace stoker {

class CachingAllocator final : public Allocator {
  public:
    // `from` must outlive this object.
    explicit CachingAllocator(Allocator& from) : from_(from) {}
    CachingAllocator(const CachingAllocator&) = delete;
    CachingAllocator& operator=(const CachingAllocator&) = delete;
    ~CachingAllocator() override { release(); }

    // A kept block of this size, or a new one. If `from` refuses a new one, all kept blocks are released, and it is
    // asked again; throws what it throws.
    std::byte* allocate(std::size_t bytes) override;
    void deallocate(std::byte* data, std::size_t bytes) noexcept override;
    bool pinned() const override { return from_.pinned(); }

    // Returns all kept blocks to `from`.
    void release() noexcept;

  private:
    std::byte* take(std::size_t bytes);

    Allocator& from_;
    std::mutex mutex_;                                               // guards kept_
    std::unordered_map<std::size_t, std::vector<std::byte*>> kept_;  // by size
};

}  // namespace stoker

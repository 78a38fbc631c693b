// Memory of a batch or an image: 64-byte aligned and from a given allocator, so that the same code fills plain and
// pinned (page-locked) memory. Move-only; views are spans.
#pragma once

#include <cstddef>
#include <span>

namespace stoker {

inline constexpr std::size_t kAlignment = 64;

// The source of buffers' memory, such as pinned memory for copies to a GPU.
class Allocator {
  public:
    virtual ~Allocator() = default;
    // At least `bytes` bytes aligned to kAlignment; throws on failure, never returns null for bytes > 0.
    virtual std::byte* allocate(std::size_t bytes) = 0;
    virtual void deallocate(std::byte* data, std::size_t bytes) noexcept = 0;
    // True if a GPU can copy from this memory without a staging buffer.
    virtual bool pinned() const { return false; }
};

// The process-wide allocator of plain host memory.
Allocator& host_allocator();

class Buffer {
  public:
    Buffer() = default;
    explicit Buffer(std::size_t bytes, Allocator& allocator = host_allocator());
    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&& other) noexcept;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer();

    std::byte* data() { return data_; }
    const std::byte* data() const { return data_; }
    std::size_t size() const { return size_; }
    std::size_t capacity() const { return capacity_; }
    std::span<std::byte> bytes() { return {data_, size_}; }
    std::span<const std::byte> bytes() const { return {data_, size_}; }

    // Sets the size. The contents are lost if the memory has to grow. The memory never shrinks, so a reused buffer
    // stops allocating once it has had its largest size.
    void resize(std::size_t bytes);

  private:
    void release() noexcept;

    Allocator* allocator_ = nullptr;
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

}  // namespace stoker

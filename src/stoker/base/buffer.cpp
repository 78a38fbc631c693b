// Sizes are rounded up to whole cache lines, so that vector code may read a full line at the end.
#include "stoker/base/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"

namespace stoker {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Smaller blocks are not checked: the check takes a tenth of a millisecond.
constexpr std::size_t kLarge = std::size_t{32} << 20;

std::byte* allocate_host(std::size_t bytes) {
    // A batch slot of 38 MB takes 10,000 page faults with small pages, 19 with huge ones.
    const std::size_t alignment = bytes >= 2 * kHugePage ? kHugePage : kAlignment;
    const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void* data = rounded < bytes ? nullptr : std::aligned_alloc(alignment, rounded);
    if (data == nullptr) {
        throw IoError(
            {.where = "host memory",
             .expected = fmt::format("{} bytes", bytes),
             .got = fmt::format("none: {}", memory_text()),
             .hint = "use a smaller <data.batch_size>, <data.prefetch>, <data.workers> or <data.cache_bytes>"});
    }
    if (alignment == kHugePage) {
        ::madvise(data, rounded, MADV_HUGEPAGE);  // a hint: a refusal does no harm
    }
    return static_cast<std::byte*>(data);
}

class HostAllocator final : public Allocator {
  public:
    std::byte* allocate(std::size_t bytes) override {
        return bytes < kLarge ? allocate_host(bytes) : allocate_checked(bytes, allocate_host);
    }
    void deallocate(std::byte* data, std::size_t bytes) noexcept override {
        if (bytes >= kLarge) {
            forget_checked(data);
        }
        std::free(data);
    }
};

}  // namespace

Allocator& host_allocator() {
    static HostAllocator allocator;
    return allocator;
}

Buffer::Buffer(std::size_t bytes, Allocator& allocator) : allocator_(&allocator) {
    resize(bytes);
}

Buffer::Buffer(Buffer&& other) noexcept
    : allocator_(other.allocator_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      capacity_(std::exchange(other.capacity_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
    if (this != &other) {
        release();
        allocator_ = other.allocator_;
        data_ = std::exchange(other.data_, nullptr);
        size_ = std::exchange(other.size_, 0);
        capacity_ = std::exchange(other.capacity_, 0);
    }
    return *this;
}

Buffer::~Buffer() {
    release();
}

void Buffer::resize(std::size_t bytes) {
    if (bytes > capacity_) {
        release();
        if (allocator_ == nullptr) {
            allocator_ = &host_allocator();
        }
        data_ = allocator_->allocate(bytes);
        capacity_ = bytes;
    }
    size_ = bytes;
}

void Buffer::release() noexcept {
    if (data_ != nullptr) {
        allocator_->deallocate(data_, capacity_);
    }
    data_ = nullptr;
    size_ = 0;
    capacity_ = 0;
}

}  // namespace stoker

#include "stoker/bridge/checked_allocator.h"

#include <malloc.h>

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include "stoker/base/memory_limit.h"

namespace stoker {
namespace {

constexpr std::uint64_t kUnchecked = std::uint64_t{1} << 20;  // smaller blocks are not counted

}  // namespace

std::uint64_t CheckedAllocator::Block::unwritten() const {
    return bytes == 0 ? 0 : unwritten_bytes(reinterpret_cast<const std::byte*>(begin), bytes);
}

c10::DataPtr CheckedAllocator::allocate(std::size_t bytes) {
    if (bytes < kUnchecked) {
        return allocator_.allocate(bytes);
    }
    require(bytes);
    c10::DataPtr block = allocator_.allocate(bytes);
    remember(reinterpret_cast<std::uintptr_t>(block.get()), bytes);
    return block;
}

// Live blocks do not overlap: one that does was freed.
void CheckedAllocator::remember(std::uintptr_t begin, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    for (Block& old : recent_) {
        if (old.begin < begin + bytes && begin < old.begin + old.bytes) {
            old.bytes = 0;
        }
    }
    recent_[next_++ % recent_.size()] = {.begin = begin, .bytes = bytes};
}

std::uint64_t CheckedAllocator::left() {
    const std::lock_guard lock(mutex_);
    std::uint64_t unwritten = 0;
    for (const Block& block : recent_) {
        unwritten += block.unwritten();
    }
    return memory_left_(unwritten);
}

// Returns freed memory to the system. Written blocks are forgotten first: once freed and returned they look unwritten.
void CheckedAllocator::trim() {
    const std::lock_guard lock(mutex_);
    for (Block& block : recent_) {
        block.bytes = block.unwritten() > 0 ? block.bytes : 0;
    }
    ::malloc_trim(0);
}

void CheckedAllocator::require(std::uint64_t bytes) {
    const auto wanted = static_cast<std::int64_t>(bytes);
    if (unchecked_.fetch_sub(wanted, std::memory_order_relaxed) >= wanted) {
        return;
    }
    std::uint64_t left = this->left();
    if (left < bytes) {
        trim();
        left = this->left();
    }
    if (left < bytes) {
        unchecked_.store(0, std::memory_order_relaxed);
        C10_THROW_ERROR(OutOfMemoryError, "DefaultCPUAllocator: can't allocate memory: you tried to allocate " +
                                              std::to_string(bytes) + " bytes.");
    }
    unchecked_.store(static_cast<std::int64_t>(left) - wanted, std::memory_order_relaxed);
}

void check_host_tensors() {
    system_memory_left();  // sets the reserve
    static auto& checked = *new CheckedAllocator(*c10::GetDefaultCPUAllocator(), system_memory_left);
    constexpr std::uint8_t kPriority = 1;  // above that of LibTorch's own, which is 0
    c10::SetAllocator(c10::DeviceType::CPU, &checked, kPriority);
}

}  // namespace stoker

#include "stoker/bridge/checked_allocator.h"

#include <malloc.h>

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include "stoker/base/memory_limit.h"

namespace stoker {
namespace {

constexpr std::uint64_t kUnchecked = std::uint64_t{1} << 20;  // smaller blocks are not counted

}  // namespace

c10::DataPtr CheckedAllocator::allocate(std::size_t bytes) {
    if (bytes >= kUnchecked) {
        require(bytes);
    }
    return allocator_.allocate(bytes);
}

void CheckedAllocator::require(std::uint64_t bytes) {
    const auto wanted = static_cast<std::int64_t>(bytes);
    if (unchecked_.fetch_sub(wanted, std::memory_order_relaxed) >= wanted) {
        return;
    }
    std::uint64_t left = memory_left_();
    if (left < bytes) {
        ::malloc_trim(0);  // gives back what was freed and kept
        left = memory_left_();
    }
    if (left < bytes) {
        unchecked_.store(0, std::memory_order_relaxed);
        C10_THROW_ERROR(OutOfMemoryError, "DefaultCPUAllocator: can't allocate memory: you tried to allocate " +
                                              std::to_string(bytes) + " bytes.");
    }
    unchecked_.store(static_cast<std::int64_t>(left) - wanted, std::memory_order_relaxed);
}

void check_host_tensors() {
    static auto& checked = *new CheckedAllocator(*c10::GetDefaultCPUAllocator(), system_memory_left);
    constexpr std::uint8_t kPriority = 1;  // above that of LibTorch's own, which is 0
    c10::SetAllocator(c10::DeviceType::CPU, &checked, kPriority);
}

}  // namespace stoker

#include "stoker/base/caching_allocator.h"

#include <exception>
#include <utility>

namespace stoker {

std::byte* CachingAllocator::allocate(std::size_t bytes) {
    if (std::byte* const kept = take(bytes)) {
        return kept;
    }
    try {
        return from_.allocate(bytes);
    } catch (const std::exception&) {
        release();
        return from_.allocate(bytes);
    }
}

void CachingAllocator::deallocate(std::byte* data, std::size_t bytes) noexcept {
    try {
        const std::lock_guard lock(mutex_);
        kept_[bytes].push_back(data);
    } catch (const std::exception&) {  // no memory for the list
        from_.deallocate(data, bytes);
    }
}

void CachingAllocator::release() noexcept {
    std::unordered_map<std::size_t, std::vector<std::byte*>> all;
    {
        const std::lock_guard lock(mutex_);
        all = std::exchange(kept_, {});
    }
    for (const auto& [bytes, blocks] : all) {
        for (std::byte* const block : blocks) {
            from_.deallocate(block, bytes);
        }
    }
}

// Null if there is none.
std::byte* CachingAllocator::take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find(bytes);
    if (found == kept_.end() || found->second.empty()) {
        return nullptr;
    }
    std::byte* const block = found->second.back();
    found->second.pop_back();
    return block;
}

}  // namespace stoker

#include "stoker/pipeline/cache/cache_capacity.h"

#include <algorithm>
#include <fmt/format.h>

#include "stoker/base/byte_text.h"
#include "stoker/base/memory_limit.h"

namespace stoker {

bool CacheCapacity::take(std::int64_t bytes) {
    if (full_.load(std::memory_order_relaxed)) {
        return false;
    }
    return granted_.fetch_sub(bytes, std::memory_order_relaxed) >= bytes || measure(bytes);
}

bool CacheCapacity::measure(std::int64_t bytes) {
    constexpr std::int64_t kStep = std::int64_t{16} << 20;
    constexpr std::uint64_t kMostKept = std::uint64_t{2} << 30;
    const std::lock_guard lock(mutex_);
    if (full_) {
        return false;
    }
    const MemoryLimit limit = memory_limit();
    const std::uint64_t kept = std::min(limit.total / 4, kMostKept);
    if (limit.available < kept + promised_memory() + static_cast<std::uint64_t>(kStep + bytes)) {
        full_ = true;
        why_ = fmt::format("{}, and {} stay free for the rest of the run", memory_text(),
                           byte_text(static_cast<std::int64_t>(kept)));
        return false;
    }
    granted_ = kStep;
    return true;
}

std::string CacheCapacity::stop_reason() const {
    const std::lock_guard lock(mutex_);
    return why_;
}

}  // namespace stoker

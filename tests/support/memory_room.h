// Sets the process's memory limit (data.memory) so that little may be allocated.
#pragma once

#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

#include "stoker/base/memory_limit.h"

namespace stoker::testing {

// During its lifetime the process may use `bytes` more than before. About three quarters of them may be allocated.
class MemoryRoom {
  public:
    explicit MemoryRoom(std::int64_t bytes) {
        set_memory_limit(std::numeric_limits<std::int64_t>::max());
        const MemoryLimit all = memory_limit();
        set_memory_limit(static_cast<std::int64_t>(all.total - all.available) + bytes);
    }
    MemoryRoom(const MemoryRoom&) = delete;
    MemoryRoom& operator=(const MemoryRoom&) = delete;
    ~MemoryRoom() { set_memory_limit(0); }
};

inline constexpr std::int64_t kMiB = std::int64_t{1} << 20;

}  // namespace stoker::testing

// Stops a cache in memory before the process reaches its memory limit. Everything else in the process, and under
// the same limit, is counted, because free memory is measured while the cache grows; so is what loaders have
// claimed for their batches.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

namespace stoker {

class CacheCapacity {
  public:
    // True if the cache may take `bytes` more. Once false, always false. Thread-safe; measures after every 16 MiB.
    bool take(std::int64_t bytes);

    // Why it was false; empty if it never was.
    std::string stop_reason() const;

  private:
    bool measure(std::int64_t bytes);

    std::atomic<std::int64_t> granted_ = 0;  // bytes that may be taken before the next measurement
    std::atomic<bool> full_ = false;
    mutable std::mutex mutex_;  // guards why_
    std::string why_;
};

}  // namespace stoker

// Decoded images kept in memory, up to a budget of bytes. Filled as samples come by and never
// emptied: under a new shuffle every epoch, evicting one sample for another gains nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "stoker/base/image.h"

namespace stoker {

class RamCache {
  public:
    // For samples [0, size); the index itself counts towards `budget_bytes`. A budget of 0 caches nothing.
    RamCache(std::int64_t size, std::int64_t budget_bytes);
    RamCache(const RamCache&) = delete;
    RamCache& operator=(const RamCache&) = delete;
    ~RamCache();

    // The cached image and its label, or a view without data. Safe beside `put`.
    ConstImageView get(std::int64_t index, std::int64_t& label) const;

    // Keeps a copy where the budget allows. Of two threads that put the same sample one wins.
    void put(std::int64_t index, ConstImageView image, std::int64_t label);

    std::int64_t bytes() const { return used_.load(std::memory_order_relaxed); }

  private:
    struct Entry {
        std::int64_t label;
        std::int32_t height, width, channels, unused;
        std::uint8_t* pixels() { return reinterpret_cast<std::uint8_t*>(this + 1); }
    };

    const std::int64_t size_;
    const std::int64_t budget_;
    std::atomic<std::int64_t> used_{0};
    std::unique_ptr<std::atomic<Entry*>[]> entries_;
};

}  // namespace stoker

// Internal to cache/: the header that both caches store with a sample's bytes, and the accounting of their budget.
#pragma once

#include <atomic>
#include <cstdint>

#include "stoker/pipeline/cache/sample_cache.h"

namespace stoker {

struct CachedHeader {
    std::int64_t label = -1;
    std::uint64_t bytes = 0;
    std::int32_t height = 0;
    std::int32_t width = 0;
    std::int32_t channels = 0;
    std::int32_t encoded = 0;
};

inline CachedHeader header_of(const Sample& sample) {
    return {.label = sample.label,
            .bytes = sample.bytes.size(),
            .height = sample.height,
            .width = sample.width,
            .channels = sample.channels,
            .encoded = sample.encoded ? 1 : 0};
}

// Sets everything but `bytes` and `storage`.
inline void set_sample(const CachedHeader& header, Sample& sample) {
    sample.label = header.label;
    sample.height = header.height;
    sample.width = header.width;
    sample.channels = header.channels;
    sample.encoded = header.encoded != 0;
}

// Adds `bytes` to `used` if the sum stays within the budget.
inline bool reserve_bytes(std::atomic<std::int64_t>& used, std::int64_t budget, std::int64_t bytes) {
    std::int64_t before = used.load(std::memory_order_relaxed);
    do {
        if (bytes > budget - before) {
            return false;
        }
    } while (!used.compare_exchange_weak(before, before + bytes));
    return true;
}

// A cache that takes eight bytes of memory per sample. Throws IoError if no file can be made in the directory.
std::unique_ptr<SampleCache> make_disk_cache(std::int64_t size, const CacheOptions& options);

}  // namespace stoker

// The cache in memory: one atomic pointer per sample. Readers never lock; a published entry never changes.
#include "stoker/pipeline/cache/sample_cache.h"

#include <algorithm>
#include <new>

#include "stoker/pipeline/cache/cache_capacity.h"
#include "stoker/pipeline/cache/cached_header.h"

namespace stoker {
namespace {

class RamCache final : public SampleCache {
  public:
    RamCache(std::int64_t size, std::int64_t budget_bytes) : size_(size), budget_(budget_bytes) {
        const auto index_bytes = size * static_cast<std::int64_t>(sizeof(std::atomic<Entry*>));
        if (index_bytes <= budget_ && capacity_.take(index_bytes)) {
            entries_ = std::make_unique<std::atomic<Entry*>[]>(static_cast<std::size_t>(size));
            used_ = index_bytes;
        }
    }
    RamCache(const RamCache&) = delete;
    RamCache& operator=(const RamCache&) = delete;
    ~RamCache() override {
        for (std::int64_t i = 0; entries_ && i < size_; ++i) {
            ::operator delete(entries_[static_cast<std::size_t>(i)].load());
        }
    }

    bool holds(std::int64_t index) const override { return find(index) != nullptr; }

    // The beginning of a large sample is enough: the hardware prefetcher continues.
    void prefetch(std::int64_t index) const override {
        constexpr std::size_t kLine = 64;
        constexpr std::size_t kMost = 1024;
        const Entry* entry = find(index);
        for (std::size_t at = 0; entry != nullptr && at < kMost; at += kLine) {
            __builtin_prefetch(reinterpret_cast<const std::byte*>(entry) + at);
        }
    }

    bool get(std::int64_t index, Sample& sample) const override {
        const Entry* entry = find(index);
        if (entry != nullptr) {
            load_parts(entry->header, {reinterpret_cast<const std::byte*>(entry + 1), entry->header.stored()}, sample);
        }
        return entry != nullptr;
    }

    void put(std::int64_t index, const Sample& sample) override {
        const std::optional<CachedHeader> header = header_of(sample);
        const std::size_t bytes = header ? sizeof(Entry) + header->stored() : 0;
        if (!entries_ || !header || !reserve_bytes(used_, budget_, static_cast<std::int64_t>(bytes))) {
            full_ = true;
            return;
        }
        void* memory = capacity_.take(static_cast<std::int64_t>(bytes)) ? ::operator new(bytes, std::nothrow) : nullptr;
        if (memory == nullptr) {  // continue without caching this sample
            full_ = true;
            used_.fetch_sub(static_cast<std::int64_t>(bytes));
            return;
        }
        auto* entry = new (memory) Entry{*header};
        auto* to = reinterpret_cast<std::byte*>(entry + 1);
        store_parts(sample, [&](std::span<const std::byte> part) { to = std::ranges::copy(part, to).out; });
        Entry* expected = nullptr;
        if (!entries_[static_cast<std::size_t>(index)].compare_exchange_strong(
                expected, entry, std::memory_order_release, std::memory_order_relaxed)) {
            ::operator delete(entry);
            used_.fetch_sub(static_cast<std::int64_t>(bytes));
        }
    }

    bool full() const override { return full_; }
    std::int64_t bytes() const override { return used_.load(std::memory_order_relaxed); }
    std::string stop_reason() const override {
        const std::string full = capacity_.stop_reason();
        return entries_ || !full.empty() ? full : "the budget is less than the 8 bytes per sample of its index";
    }

  private:
    struct Entry {
        CachedHeader header;  // followed by stored() bytes
    };

    const Entry* find(std::int64_t index) const {
        return entries_ ? entries_[static_cast<std::size_t>(index)].load(std::memory_order_acquire) : nullptr;
    }

    const std::int64_t size_;
    const std::int64_t budget_;
    std::atomic<std::int64_t> used_{0};
    std::atomic<bool> full_ = false;
    CacheCapacity capacity_;
    std::unique_ptr<std::atomic<Entry*>[]> entries_;
};

}  // namespace

std::unique_ptr<SampleCache> make_sample_cache(std::int64_t size, const CacheOptions& options) {
    if (options.bytes <= 0) {
        return nullptr;
    }
    if (!options.directory.empty()) {
        return make_disk_cache(size, options);
    }
    return std::make_unique<RamCache>(size, options.bytes);
}

}  // namespace stoker

// One atomic pointer a sample: readers never lock, and an entry once published never changes.
#include "stoker/pipeline/cache.h"

#include <new>

namespace stoker {

RamCache::RamCache(std::int64_t size, std::int64_t budget_bytes) : size_(size), budget_(budget_bytes) {
    const auto index_bytes = size * static_cast<std::int64_t>(sizeof(std::atomic<Entry*>));
    if (index_bytes > budget_) {
        return;
    }
    entries_ = std::make_unique<std::atomic<Entry*>[]>(static_cast<std::size_t>(size));
    used_ = index_bytes;
}

RamCache::~RamCache() {
    for (std::int64_t i = 0; entries_ && i < size_; ++i) {
        ::operator delete(entries_[static_cast<std::size_t>(i)].load());
    }
}

ConstImageView RamCache::get(std::int64_t index, std::int64_t& label) const {
    Entry* entry = entries_ ? entries_[static_cast<std::size_t>(index)].load(std::memory_order_acquire) : nullptr;
    if (entry == nullptr) {
        return {};
    }
    label = entry->label;
    return {entry->pixels(), entry->height, entry->width, entry->channels,
            std::ptrdiff_t{entry->width} * entry->channels};
}

void RamCache::put(std::int64_t index, ConstImageView image, std::int64_t label) {
    if (!entries_) {
        return;
    }
    const std::size_t bytes = sizeof(Entry) + image.row_bytes() * static_cast<std::size_t>(image.height);
    const auto cost = static_cast<std::int64_t>(bytes);
    std::int64_t used = used_.load(std::memory_order_relaxed);
    do {
        if (cost > budget_ - used) {
            return;
        }
    } while (!used_.compare_exchange_weak(used, used + cost));
    auto* entry = new (::operator new(bytes)) Entry{label, image.height, image.width, image.channels, 0};
    copy_pixels(image, {entry->pixels(), image.height, image.width, image.channels,
                        std::ptrdiff_t{image.width} * image.channels});
    Entry* expected = nullptr;
    if (!entries_[static_cast<std::size_t>(index)].compare_exchange_strong(expected, entry, std::memory_order_release,
                                                                           std::memory_order_relaxed)) {
        ::operator delete(entry);
        used_.fetch_sub(cost);
    }
}

}  // namespace stoker

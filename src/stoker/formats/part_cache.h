// Decoded parts of data that can only be decoded a part at a time: chunks of HDF5, compressed shards, pages and row
// groups of Parquet. The most recently used are kept.
#pragma once

#include <cstdint>
#include <exception>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "stoker/base/error.h"

namespace stoker {

// In random order over data much larger than the budget, almost every read decodes a part. Data sets with large parts
// therefore return them as Dataset::shard_sizes, so that samples are shuffled within windows of parts.
// `Part` has a size() in bytes, such as a Buffer.
template <typename Part>
class PartCache {
  public:
    // The part used last is kept even if it alone exceeds the budget, which is in bytes.
    explicit PartCache(std::uint64_t budget) : budget_(budget) {}

    // Another budget, from the next decoded part on.
    void set_budget(std::uint64_t budget) {
        const std::lock_guard lock(mutex_);
        budget_ = budget;
    }

    // The part; `decode` makes it if it is not cached. Threads that miss the same part wait for the one that decodes
    // it. A DataError of `decode` is kept, and thrown again as long as the part would be; after other errors nothing is
    // kept. Thread-safe.
    template <typename Decode>
    std::shared_ptr<const Part> get(std::uint64_t id, Decode decode) {
        const std::shared_ptr<Entry> entry = use(id);
        const std::lock_guard lock(entry->mutex);
        if (entry->damage != nullptr) {
            std::rethrow_exception(entry->damage);
        }
        if (entry->part == nullptr) {
            try {
                entry->part = std::make_shared<const Part>(decode());
            } catch (const DataError&) {
                entry->damage = std::current_exception();
                count(entry, kErrorBytes);
                throw;
            }
            count(entry, entry->part->size());
        }
        return entry->part;
    }

  private:
    struct Entry {
        std::uint64_t id = 0;
        std::uint64_t counted = 0;         // its share of bytes_; guarded by the cache's mutex
        std::mutex mutex;                  // held while it is decoded
        std::shared_ptr<const Part> part;  // null until it was decoded
        std::exception_ptr damage;
    };
    static constexpr std::uint64_t kErrorBytes = 1024;
    using Entries = std::list<std::shared_ptr<Entry>>;

    std::shared_ptr<Entry> use(std::uint64_t id) {
        const std::lock_guard lock(mutex_);
        if (const auto found = places_.find(id); found != places_.end()) {
            recent_.splice(recent_.begin(), recent_, found->second);
        } else {
            recent_.push_front(std::make_shared<Entry>());
            recent_.front()->id = id;
            places_[id] = recent_.begin();
        }
        return recent_.front();
    }

    void count(const std::shared_ptr<Entry>& entry, std::uint64_t bytes) {
        const std::lock_guard lock(mutex_);
        const auto found = places_.find(entry->id);
        if (found == places_.end() || *found->second != entry) {
            return;  // removed while it was decoded
        }
        entry->counted = bytes;
        bytes_ += entry->counted;
        for (auto last = recent_.end(); bytes_ > budget_ && last != recent_.begin();) {
            last = std::prev(last);
            if (*last != entry) {
                bytes_ -= (*last)->counted;
                places_.erase((*last)->id);
                last = recent_.erase(last);
            }
        }
    }

    std::uint64_t budget_;
    std::mutex mutex_;
    std::uint64_t bytes_ = 0;
    Entries recent_;  // most recently used first
    std::unordered_map<std::uint64_t, typename Entries::iterator> places_;
};

}  // namespace stoker

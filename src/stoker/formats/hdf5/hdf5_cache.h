// The most recently used decoded chunks. Reading one sample of a chunk that is not cached decodes the whole chunk. In
// random order over a data set much larger than the cache that is almost every read: with 100 samples a chunk, all the
// data is decoded 100 times an epoch. Chunks of one sample (h5py: chunks=(1, H, W)) are not cached and cost nothing
// extra.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "stoker/base/buffer.h"

namespace stoker {

inline constexpr std::uint64_t kHdf5CacheBytes = std::uint64_t{64} << 20;  // decoded chunks of one data set

class Hdf5Cache {
  public:
    // All chunks have `chunk_bytes`. One chunk is kept even if it alone exceeds the budget.
    Hdf5Cache(std::uint64_t chunk_bytes, std::uint64_t budget);

    // The chunk; `decode` makes it if it is not cached. Threads that miss the same chunk at the same time each decode
    // it.
    std::shared_ptr<const Buffer> get(std::uint64_t cell, const std::function<Buffer()>& decode);

  private:
    struct Entry {
        std::uint64_t cell = 0;
        std::shared_ptr<const Buffer> chunk;
    };
    struct Shard {
        std::mutex mutex;
        std::list<Entry> recent;  // most recently used first
        std::unordered_map<std::uint64_t, std::list<Entry>::iterator> places;
    };

    std::vector<Shard> shards_;
    std::size_t max_chunks_ = 1;  // in a shard
};

}  // namespace stoker

// The chunks decoded last. A chunk of many samples costs its whole decoding for each sample that is read while it is
// not here: in random order over a data set larger than the budget that is almost every sample, so a set of 100 samples
// a chunk is read 100 times over. Chunks of one sample each (h5py: chunks=(1, H, W)) never come here and cost nothing
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

inline constexpr std::uint64_t kHdf5CacheBytes = std::uint64_t{64} << 20;  // of a data set's decoded chunks

class Hdf5Cache {
  public:
    // All chunks are of `chunk_bytes`. One chunk is held even where it alone is beyond the budget.
    Hdf5Cache(std::uint64_t chunk_bytes, std::uint64_t budget);

    // The chunk, decoded by `decode` where it is not held. Threads that miss the same chunk at the same time decode it
    // each for itself.
    std::shared_ptr<const Buffer> get(std::uint64_t cell, const std::function<Buffer()>& decode);

  private:
    struct Entry {
        std::uint64_t cell = 0;
        std::shared_ptr<const Buffer> chunk;
    };
    struct Shard {
        std::mutex mutex;
        std::list<Entry> recent;  // the last used first
        std::unordered_map<std::uint64_t, std::list<Entry>::iterator> places;
    };

    std::vector<Shard> shards_;
    std::size_t most_ = 1;  // chunks in a shard
};

}  // namespace stoker

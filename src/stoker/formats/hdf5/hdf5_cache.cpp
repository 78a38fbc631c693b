// The cache is split into shards with a lock each, so that threads rarely wait, unless it holds only a few chunks.
#include "stoker/formats/hdf5/hdf5_cache.h"

#include <algorithm>

namespace stoker {
namespace {

std::uint64_t chunks_in(std::uint64_t budget, std::uint64_t chunk_bytes) {
    return std::max<std::uint64_t>(budget / std::max<std::uint64_t>(chunk_bytes, 1), 1);
}

std::size_t shards_for(std::uint64_t chunks) {
    constexpr std::uint64_t kMaxShards = 16;
    constexpr std::uint64_t kMinChunks = 8;  // in each shard
    return static_cast<std::size_t>(std::clamp<std::uint64_t>(chunks / kMinChunks, 1, kMaxShards));
}

}  // namespace

Hdf5Cache::Hdf5Cache(std::uint64_t chunk_bytes, std::uint64_t budget)
    : shards_(shards_for(chunks_in(budget, chunk_bytes))),
      max_chunks_(static_cast<std::size_t>(chunks_in(budget, chunk_bytes)) / shards_.size()) {}

std::shared_ptr<const Buffer> Hdf5Cache::get(std::uint64_t cell, const std::function<Buffer()>& decode) {
    Shard& shard = shards_[cell % shards_.size()];
    {
        const std::lock_guard lock(shard.mutex);
        if (const auto found = shard.places.find(cell); found != shard.places.end()) {
            shard.recent.splice(shard.recent.begin(), shard.recent, found->second);
            return found->second->chunk;
        }
    }
    auto chunk = std::make_shared<const Buffer>(decode());
    const std::lock_guard lock(shard.mutex);
    if (!shard.places.contains(cell)) {
        shard.recent.push_front({cell, chunk});
        shard.places[cell] = shard.recent.begin();
    }
    while (shard.recent.size() > max_chunks_) {
        shard.places.erase(shard.recent.back().cell);
        shard.recent.pop_back();
    }
    return chunk;
}

}  // namespace stoker

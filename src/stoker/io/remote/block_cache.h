// A disk cache of blocks of remote objects, with a limit on bytes. Several processes may share the directory, and each
// may be killed at any moment: every block has a hash, and damaged blocks are dropped.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "stoker/base/file.h"

namespace stoker {

// Identifies a block of one version of an object.
struct BlockKey {
    std::uint64_t high = 0;
    std::uint64_t low = 0;
};
BlockKey block_key(std::string_view identity, std::uint64_t offset, std::uint64_t size);

class BlockCache {
  public:
    // Makes the directory and sums up the blocks in it. Throws IoError if it cannot be written to, InvalidArgument if
    // `budget` is less than a block.
    BlockCache(const std::filesystem::path& directory, std::int64_t budget);
    BlockCache(const BlockCache&) = delete;
    BlockCache& operator=(const BlockCache&) = delete;

    // Fills `out` with the block, which must have exactly that size. Returns false if the cache does not have it; a
    // damaged block is removed.
    bool get(const BlockKey& key, std::span<std::byte> out);

    // Stores a block and evicts the least recently used ones to make room. Returns false if that is not possible, such
    // as on a full disk: a cache must not make a run fail.
    bool put(const BlockKey& key, std::span<const std::byte> block);

    // Drops a block whose bytes are wrong although its hash is right: it was fetched that way.
    void remove(const BlockKey& key);

    // Bytes stored or being written, by this and other processes. Never more than the budget.
    std::int64_t used();

  private:
    class Lock;

    std::string path_of(const BlockKey& key) const;
    std::int64_t read_used() const;
    void write_used(std::int64_t used) const;
    std::int64_t make_room(std::int64_t most) const;
    std::string reserve(const BlockKey& key, std::int64_t cost, Descriptor& file);
    bool publish(const std::string& temporary, const std::string& path, std::int64_t cost);
    void remove_damaged(const std::string& path, std::int64_t cost);

    std::filesystem::path directory_;
    std::int64_t budget_;
    std::mutex mutex_;           // flock excludes other processes, this mutex other threads
    Descriptor usage_;           // the file "usage", also locked by flock
    std::uint64_t written_ = 0;  // numbers temporary files
};

}  // namespace stoker

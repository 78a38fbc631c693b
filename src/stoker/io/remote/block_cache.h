// Blocks of remote objects kept in a directory, within a budget of bytes. Several processes may share the directory,
// and each may be killed at any moment: every block carries a hash of its own, and what is damaged is dropped.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

namespace stoker {

// One block of one version of one object.
struct BlockKey {
    std::uint64_t high = 0;
    std::uint64_t low = 0;
};
BlockKey block_key(std::string_view identity, std::uint64_t offset, std::uint64_t size);

class BlockCache {
  public:
    // Makes the directory and counts what is in it. Throws IoError where it cannot be written to, and InvalidArgument
    // for a budget below one block's share.
    BlockCache(const std::filesystem::path& directory, std::int64_t budget);
    BlockCache(const BlockCache&) = delete;
    BlockCache& operator=(const BlockCache&) = delete;
    ~BlockCache();

    // Fills `out` with the block of exactly that size. False where it is not kept; one that is damaged is removed.
    bool get(const BlockKey& key, std::span<std::byte> out);

    // Keeps a block, and makes room for it by removing those that were not used for longest. False where that is not
    // possible, such as on a full disk: a cache is no reason to fail.
    bool put(const BlockKey& key, std::span<const std::byte> block);

    // Drops a block that turned out to be wrong although it is as it was when it came.
    void remove(const BlockKey& key);

    // What is kept or being written now, by this and other processes: never more than the budget.
    std::int64_t used();

  private:
    class Lock;

    std::string path_of(const BlockKey& key) const;
    std::int64_t read_used() const;
    void write_used(std::int64_t used) const;
    std::int64_t make_room(std::int64_t most) const;
    std::string reserve(const BlockKey& key, std::int64_t cost, int& fd);
    void remove_damaged(const std::string& path, std::int64_t cost);

    std::filesystem::path directory_;
    std::int64_t budget_;
    std::mutex mutex_;  // the file lock is the process's, this one the thread's
    int lock_ = -1;
    std::uint64_t written_ = 0;  // numbers temporary files
};

}  // namespace stoker

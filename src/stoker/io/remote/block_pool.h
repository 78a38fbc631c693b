// Blocks of remote objects in memory, shared by all remote files of a process: one limit on bytes, threads that
// prefetch, and a single fetch of a block even if several threads want it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/io/byte_file.h"
#include "stoker/io/remote/block_memory.h"

namespace stoker {

// The source of blocks. All blocks have the same size, except the last.
class BlockOrigin {
  public:
    virtual ~BlockOrigin() = default;
    virtual std::uint64_t size() const = 0;
    virtual std::uint64_t block_bytes() const = 0;
    virtual std::uint64_t run_bytes() const = 0;  // size limit of one fetch

    // Fills consecutive blocks, each to its full length, from block `first` on. Thread-safe. Throws Error.
    virtual void fetch(std::uint64_t first, std::span<const std::span<std::byte>> blocks) const = 0;
};

class BlockPool {
  public:
    // `budget`: bytes that blocks may take. Running reads may exceed it, prefetching never does. `threads`: for
    // prefetching.
    BlockPool(std::int64_t budget, int threads);
    BlockPool(const BlockPool&) = delete;
    BlockPool& operator=(const BlockPool&) = delete;
    ~BlockPool();

    // Fills `out` with the bytes from `offset` on, fetching the blocks that are missing. The range must lie within the
    // origin. Rethrows the error of a fetch.
    void read(const std::shared_ptr<const BlockOrigin>& origin, std::uint64_t offset, std::span<std::byte> out);

    // Queues the missing blocks of `ranges` as far as there is room, which is free space and that of blocks that were
    // read already. Does not wait.
    void prefetch(const std::shared_ptr<const BlockOrigin>& origin, std::span<const ByteRange> ranges);

    // Drops all blocks of an origin, queued ones too.
    void forget(const BlockOrigin& origin);

    // Drops one block, unless it is being fetched or read.
    void forget(const BlockOrigin& origin, std::uint64_t number);

    struct Usage {
        std::int64_t bytes = 0;      // of all blocks: fetched, being fetched or queued
        std::int64_t allocated = 0;  // bytes of memory, including memory kept for reuse
    };
    Usage usage() const;

  private:
    struct Block;
    struct Run;
    using Key = std::pair<const BlockOrigin*, std::uint64_t>;
    using BlockPtr = std::shared_ptr<Block>;
    using RunPtr = std::shared_ptr<Run>;

    void work();
    void read_some(const std::shared_ptr<const BlockOrigin>& origin, std::uint64_t offset, std::span<std::byte> out);
    std::vector<RunPtr> claim(const std::shared_ptr<const BlockOrigin>& origin, std::uint64_t first, std::uint64_t last,
                              std::vector<BlockPtr>& blocks);
    void wait_and_copy(const std::vector<BlockPtr>& blocks, std::size_t skipped, std::span<std::byte> out);
    BlockPtr add_block(const std::shared_ptr<const BlockOrigin>& origin, std::uint64_t number,
                       std::vector<RunPtr>& runs);
    bool unqueue(const RunPtr& run);
    void execute(const RunPtr& run);
    void finish(const RunPtr& run, const std::exception_ptr& error);
    void drop(std::map<Key, BlockPtr>::iterator found);
    void release(Block& block);
    bool make_room(std::int64_t bytes, bool only_read);
    Buffer take_buffer(std::size_t bytes);
    void trim(std::int64_t more);

    const std::int64_t budget_;
    mutable std::mutex mutex_;
    std::condition_variable queued_;    // a run was queued, or the pool is stopping
    std::condition_variable finished_;  // blocks were fetched, or failed
    BlockMemory memory_;                // before the members whose buffers it allocates
    std::map<Key, BlockPtr> blocks_;
    std::list<BlockPtr> by_use_;  // fetched blocks, least recently used first
    std::deque<RunPtr> queue_;
    std::vector<Buffer> spare_;   // memory of dropped blocks, for reuse
    std::int64_t bytes_ = 0;      // of the blocks in the map, with or without memory yet
    std::int64_t allocated_ = 0;  // bytes of memory, spare or not
    bool stopping_ = false;
    std::vector<std::jthread> threads_;
};

}  // namespace stoker

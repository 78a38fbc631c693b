// Blocks of remote objects in memory, for all remote files of a process: a budget of bytes that they share, threads
// that fetch what was announced, and one fetch for a block however many threads want it.
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

// What blocks are read from. All are of one size but the last.
class BlockOrigin {
  public:
    virtual ~BlockOrigin() = default;
    virtual std::uint64_t size() const = 0;
    virtual std::uint64_t block_bytes() const = 0;
    virtual std::uint64_t run_bytes() const = 0;  // the most that one fetch should ask for

    // Fills consecutive blocks, each to its full length, from block `first` on. Many threads at once. Throws Error.
    virtual void fetch(std::uint64_t first, std::span<const std::span<std::byte>> blocks) const = 0;
};

class BlockPool {
  public:
    // `budget` is what blocks may take; reads that are under way may go beyond it, announcements never do.
    BlockPool(std::int64_t budget, int threads);
    BlockPool(const BlockPool&) = delete;
    BlockPool& operator=(const BlockPool&) = delete;
    ~BlockPool();

    // Fills `out` from `offset` on, from blocks that are there, being fetched, or fetched now. The range lies within
    // the origin. Rethrows what a fetch threw.
    void read(const std::shared_ptr<const BlockOrigin>& origin, std::uint64_t offset, std::span<std::byte> out);

    // Queues what is missing of `ranges`, as far as there is room: space that is free, or taken by blocks that were
    // read already. Returns at once.
    void prefetch(const std::shared_ptr<const BlockOrigin>& origin, std::span<const ByteRange> ranges);

    // Drops what is kept and queued of an origin.
    void forget(const BlockOrigin& origin);

    // Drops one block, if it is there and nobody is reading it.
    void forget(const BlockOrigin& origin, std::uint64_t number);

    struct Figures {
        std::int64_t bytes = 0;     // of blocks that are kept, being fetched or queued
        std::int64_t resident = 0;  // of memory
        std::int64_t fetches = 0;
    };
    Figures figures() const;

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
    void finish(const RunPtr& run, std::exception_ptr error);
    void drop(std::map<Key, BlockPtr>::iterator found);
    void release(Block& block);
    bool make_room(std::int64_t bytes, bool only_read);
    Buffer take_buffer(std::size_t bytes);
    void trim(std::int64_t more);

    const std::int64_t budget_;
    BlockMemory memory_;  // before everything that holds some of it
    mutable std::mutex mutex_;
    std::condition_variable queued_;    // a run is in the queue, or the end has come
    std::condition_variable finished_;  // blocks are there, or failed
    std::map<Key, BlockPtr> blocks_;
    std::list<BlockPtr> by_use_;  // blocks that are there, the one not used for longest first
    std::deque<RunPtr> queue_;
    std::vector<Buffer> spare_;  // memory of dropped blocks
    std::int64_t bytes_ = 0;     // of the blocks in the map, with or without memory yet
    std::int64_t resident_ = 0;  // of memory, spare or not
    std::int64_t fetches_ = 0;
    bool stopping_ = false;
    std::vector<std::jthread> threads_;
};

}  // namespace stoker

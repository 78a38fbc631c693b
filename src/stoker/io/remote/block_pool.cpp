// One mutex guards maps and lists of a few hundred blocks; bytes are fetched and copied without holding it. A block is
// pending (queued or being fetched), fetched, or failed. Only fetched blocks that no reader has pinned are evicted.
#include "stoker/io/remote/block_pool.h"

#include <algorithm>
#include <cstring>

namespace stoker {

struct BlockPool::Block {
    enum class State : std::uint8_t { pending, fetched, failed };

    Key key;
    std::size_t size = 0;
    State state = State::pending;
    bool dropped = false;  // removed from the map
    int pins = 0;          // readers that copy from it or wait for it
    int announced = 0;     // prefetch calls without a read yet; blocks that have none are evicted first
    Buffer buffer;
    std::exception_ptr error;
    RunPtr run;                             // while it is pending
    std::list<BlockPtr>::iterator place{};  // in by_use_, while it is fetched
};

struct BlockPool::Run {
    std::shared_ptr<const BlockOrigin> origin;
    std::vector<BlockPtr> blocks;  // consecutive
    bool queued = false;
};

BlockPool::BlockPool(std::int64_t budget, int threads) : budget_(budget) {
    for (int i = 0; i < threads; ++i) {
        threads_.emplace_back([this] { work(); });
    }
}

BlockPool::~BlockPool() {
    {
        const std::scoped_lock lock(mutex_);
        stopping_ = true;
    }
    queued_.notify_all();
}

void BlockPool::work() {
    for (;;) {
        RunPtr run;
        {
            std::unique_lock lock(mutex_);
            queued_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
            if (stopping_) {
                return;
            }
            run = queue_.front();
            queue_.pop_front();
            run->queued = false;
        }
        execute(run);
    }
}

bool BlockPool::unqueue(const RunPtr& run) {
    if (!run->queued) {
        return false;
    }
    run->queued = false;
    queue_.erase(std::find(queue_.begin(), queue_.end(), run));
    return true;
}

void BlockPool::execute(const RunPtr& run) {
    std::exception_ptr error;
    try {
        std::vector<std::span<std::byte>> spans;
        {
            const std::scoped_lock lock(mutex_);
            for (const BlockPtr& block : run->blocks) {
                block->buffer = take_buffer(block->size);
                spans.push_back(block->buffer.bytes());
            }
        }
        run->origin->fetch(run->blocks.front()->key.second, spans);
    } catch (...) {  // rethrown to the readers that wait for these blocks
        error = std::current_exception();
    }
    finish(run, error);
}

void BlockPool::finish(const RunPtr& run, const std::exception_ptr& error) {
    {
        const std::scoped_lock lock(mutex_);
        for (const BlockPtr& block : run->blocks) {
            block->run.reset();
            block->error = error;
            block->state = error ? Block::State::failed : Block::State::fetched;
            if (block->dropped) {
                release(*block);
            } else if (error) {
                drop(blocks_.find(block->key));
            } else {
                block->place = by_use_.insert(by_use_.end(), block);
            }
        }
    }
    finished_.notify_all();
}

// Removes a block from the map. The memory of a pending block is released when its fetch ends.
void BlockPool::drop(std::map<Key, BlockPtr>::iterator found) {
    const BlockPtr block = found->second;
    blocks_.erase(found);
    block->dropped = true;
    if (block->state == Block::State::fetched) {
        by_use_.erase(block->place);
    }
    if (block->state != Block::State::pending) {
        release(*block);
    }
}

void BlockPool::release(Block& block) {
    bytes_ -= static_cast<std::int64_t>(block.size);
    if (block.buffer.size() > 0) {
        spare_.push_back(std::move(block.buffer));
        block.buffer = Buffer();
        trim(0);
    }
}

// Reuses the memory of dropped blocks: the page faults of new memory cost more than the copy into it.
Buffer BlockPool::take_buffer(std::size_t bytes) {
    const auto found =
        std::find_if(spare_.begin(), spare_.end(), [&](const Buffer& buffer) { return buffer.size() == bytes; });
    if (found == spare_.end()) {
        trim(static_cast<std::int64_t>(bytes));
        allocated_ += static_cast<std::int64_t>(bytes);
        return Buffer(bytes, memory_);
    }
    Buffer buffer = std::move(*found);
    spare_.erase(found);
    return buffer;
}

// Frees spare memory until `more` bytes fit into the budget.
void BlockPool::trim(std::int64_t more) {
    while (allocated_ + more > budget_ && !spare_.empty()) {
        allocated_ -= static_cast<std::int64_t>(spare_.front().size());
        spare_.erase(spare_.begin());
    }
}

bool BlockPool::make_room(std::int64_t bytes, bool only_read) {
    const auto pass = [&](bool announced_too) {
        for (auto each = by_use_.begin(); each != by_use_.end() && bytes_ + bytes > budget_;) {
            const BlockPtr block = *each++;
            if (block->pins == 0 && (announced_too || block->announced == 0)) {
                drop(blocks_.find(block->key));
            }
        }
    };
    pass(false);
    if (!only_read) {
        pass(true);
    }
    return bytes_ + bytes <= budget_;
}

// Adds a block to the last run, or to a new run if it does not follow the last block or that run is full.
BlockPool::BlockPtr BlockPool::add_block(const std::shared_ptr<const BlockOrigin>& origin, std::uint64_t number,
                                         std::vector<RunPtr>& runs) {
    const std::uint64_t start = number * origin->block_bytes();
    auto block = std::make_shared<Block>();
    block->key = {origin.get(), number};
    block->size = static_cast<std::size_t>(std::min(origin->block_bytes(), origin->size() - start));
    bytes_ += static_cast<std::int64_t>(block->size);
    const bool follows = !runs.empty() && runs.back()->blocks.back()->key.second + 1 == number &&
                         (runs.back()->blocks.size() + 1) * origin->block_bytes() <= origin->run_bytes();
    if (!follows) {
        runs.push_back(std::make_shared<Run>(Run{.origin = origin, .blocks = {}}));
    }
    block->run = runs.back();
    runs.back()->blocks.push_back(block);
    blocks_.emplace(block->key, block);
    return block;
}

void BlockPool::prefetch(const std::shared_ptr<const BlockOrigin>& origin, std::span<const ByteRange> ranges) {
    std::vector<RunPtr> runs;
    {
        const std::scoped_lock lock(mutex_);
        const auto add = [&](std::uint64_t number) {
            const auto found = blocks_.find({origin.get(), number});
            if (found == blocks_.end() && !make_room(static_cast<std::int64_t>(origin->block_bytes()), true)) {
                return false;
            }
            ++(found != blocks_.end() ? found->second : add_block(origin, number, runs))->announced;
            return true;
        };
        for (const ByteRange& range : ranges) {
            if (range.size == 0 || range.offset >= origin->size()) {
                continue;
            }
            const std::uint64_t end = range.offset + std::min(range.size, origin->size() - range.offset);
            std::uint64_t number = range.offset / origin->block_bytes();
            while (number <= (end - 1) / origin->block_bytes() && add(number)) {
                ++number;
            }
        }
        for (const RunPtr& run : runs) {
            run->queued = true;
            queue_.push_back(run);
        }
    }
    for (std::size_t i = 0; i < runs.size(); ++i) {
        queued_.notify_one();
    }
}

void BlockPool::read(const std::shared_ptr<const BlockOrigin>& origin, std::uint64_t offset, std::span<std::byte> out) {
    // Long reads are cut into windows of this size, which bounds their memory.
    const std::uint64_t window = std::max<std::uint64_t>(static_cast<std::uint64_t>(budget_) / 4, origin->run_bytes());
    while (!out.empty()) {
        const std::span<std::byte> some = out.first(std::min<std::uint64_t>(out.size(), window));
        read_some(origin, offset, some);
        offset += some.size();
        out = out.subspan(some.size());
    }
}

// Pins the blocks from `first` to `last`. Returns the runs that the caller must fetch: those of new blocks, and those
// that were still queued.
std::vector<BlockPool::RunPtr> BlockPool::claim(const std::shared_ptr<const BlockOrigin>& origin, std::uint64_t first,
                                                std::uint64_t last, std::vector<BlockPtr>& blocks) {
    std::vector<RunPtr> runs;
    std::vector<RunPtr> taken;
    for (std::uint64_t number = first; number <= last; ++number) {
        const auto found = blocks_.find({origin.get(), number});
        if (found != blocks_.end()) {
            blocks.push_back(found->second);
            if (found->second->run && unqueue(found->second->run)) {
                taken.push_back(found->second->run);
            }
        } else {
            make_room(static_cast<std::int64_t>(origin->block_bytes()), false);
            blocks.push_back(add_block(origin, number, runs));
        }
        ++blocks.back()->pins;
    }
    runs.insert(runs.begin(), taken.begin(), taken.end());
    for (std::size_t i = runs.size(); i-- > 1;) {  // free threads take all but the first, before prefetches
        runs[i]->queued = true;
        queue_.push_front(runs[i]);
    }
    return runs;
}

void BlockPool::read_some(const std::shared_ptr<const BlockOrigin>& origin, std::uint64_t offset,
                          std::span<std::byte> out) {
    std::vector<BlockPtr> blocks;
    std::vector<RunPtr> runs;
    {
        const std::scoped_lock lock(mutex_);
        runs = claim(origin, offset / origin->block_bytes(), (offset + out.size() - 1) / origin->block_bytes(), blocks);
    }
    for (std::size_t i = 1; i < runs.size(); ++i) {
        queued_.notify_one();
    }
    for (std::size_t i = 0; i < runs.size(); ++i) {
        bool mine = i == 0;
        if (!mine) {
            const std::scoped_lock lock(mutex_);
            mine = unqueue(runs[i]);
        }
        if (mine) {
            execute(runs[i]);
        }
    }
    wait_and_copy(blocks, static_cast<std::size_t>(offset % origin->block_bytes()), out);
}

void BlockPool::wait_and_copy(const std::vector<BlockPtr>& blocks, std::size_t skipped, std::span<std::byte> out) {
    std::exception_ptr error;
    for (const BlockPtr& block : blocks) {
        {
            std::unique_lock lock(mutex_);
            finished_.wait(lock, [&] { return block->state != Block::State::pending; });
            error = block->error;
        }
        if (error) {
            break;
        }
        const std::size_t some = std::min(block->size - skipped, out.size());
        std::memcpy(out.data(), block->buffer.data() + skipped, some);
        out = out.subspan(some);
        skipped = 0;
    }
    {
        const std::scoped_lock lock(mutex_);
        for (const BlockPtr& block : blocks) {
            --block->pins;
            block->announced = std::max(0, block->announced - 1);
            if (!block->dropped && block->state == Block::State::fetched) {
                by_use_.splice(by_use_.end(), by_use_, block->place);
            }
        }
    }
    if (error) {
        std::rethrow_exception(error);
    }
}

void BlockPool::forget(const BlockOrigin& origin) {
    const std::scoped_lock lock(mutex_);
    for (auto each = blocks_.lower_bound({&origin, 0}); each != blocks_.end() && each->first.first == &origin;) {
        const auto found = each++;
        const RunPtr run = found->second->run;
        if (run && unqueue(run)) {
            for (const BlockPtr& block : run->blocks) {
                block->state = Block::State::failed;
                block->run.reset();
            }
        }
        drop(found);
    }
}

void BlockPool::forget(const BlockOrigin& origin, std::uint64_t number) {
    const std::scoped_lock lock(mutex_);
    const auto found = blocks_.find({&origin, number});
    if (found != blocks_.end() && found->second->pins == 0 && found->second->state == Block::State::fetched) {
        drop(found);
    }
}

BlockPool::Usage BlockPool::usage() const {
    const std::scoped_lock lock(mutex_);
    return {.bytes = bytes_, .allocated = allocated_};
}

}  // namespace stoker

// Whether a piece of a mapped file is used through the map, without a copy, or read into a buffer. One rule for all
// formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stoker/base/buffer.h"
#include "stoker/base/memory_limit.h"
#include "stoker/base/prefetch.h"

namespace stoker {

// Smaller pieces are always used through the map: a read call would cost more than the copy saves.
inline constexpr std::size_t kReadBytes = std::size_t{16} << 10;

// Larger pieces are used through the map if they are in the page cache (File::in_memory), which saves the copy. Pieces
// that have to come from the disk are read: one call instead of a page fault for every few pages, and a failure is an
// error instead of a signal. A signal remains possible only if the file is cut short, or a page is evicted and lost,
// between the check and the use. Mapped pages that were used count as the process's memory, so all large pieces are
// read if the data set takes more than an eighth of the memory that the process may use.
class MapOrRead {
  public:
    MapOrRead() = default;  // reads all large pieces
    // `data_bytes`: size of the whole data set, all shards together.
    explicit MapOrRead(std::uint64_t data_bytes, std::uint64_t memory = memory_limit().total)
        : large_(data_bytes <= memory / 8) {}

    // True if a piece of `size` bytes is to be used through the map. `in_memory()` is called for large pieces only.
    template <typename InMemory>
    bool operator()(std::size_t size, InMemory in_memory) const {
        return size < kReadBytes || (large_ && in_memory());
    }

    // Returns `mapped`, the bytes at `offset` of `file`, or a copy of them in `storage`.
    template <typename Bytes>
    std::span<const std::byte> get(std::span<const std::byte> mapped, const Bytes& file, std::uint64_t offset,
                                   Buffer& storage) const {
        if ((*this)(mapped.size(), [&] { return file.in_memory(offset, mapped.size()); })) {
            return mapped;
        }
        storage.resize(mapped.size());
        file.read(offset, storage.bytes());
        return storage.bytes();
    }

  private:
    bool large_ = false;
};

// Prepares a piece that will be used after `ahead` others. Small pieces are prefetched into the processor's cache while
// there is room for them; large ones are left to `fetch()`, which must not wait.
template <typename Fetch>
void prefetch_bytes(std::span<const std::byte> mapped, std::size_t ahead, Fetch fetch) {
    if (mapped.size() >= kReadBytes) {
        fetch();
    } else if (ahead < kPrefetchSamples) {
        prefetch_memory(mapped.data(), mapped.size());
    }
}

}  // namespace stoker

// Whether the bytes of a mapped file are used where they lie, or read into memory of the reader's own: one rule for
// all formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stoker/base/buffer.h"
#include "stoker/base/prefetch.h"

namespace stoker {

// Smaller pieces are always used where they lie: a read costs more than what it saves.
inline constexpr std::size_t kReadBytes = std::size_t{16} << 10;

// Bytes of memory that the machine has.
std::uint64_t machine_memory();

// Larger pieces are used where they lie if they are in memory (File::in_memory): that saves the copy. What has to come
// from a disk is read, with one call instead of a fault for every few pages, and so that a failure is an error and not
// a signal; all that is left to a signal is a file that is cut short, or a page that is lost, between the question and
// the use. Used pages count as the process's memory, so that of a data set beyond an eighth of the machine's everything
// large is read.
class InPlace {
  public:
    InPlace() = default;
    // `data_bytes`: of the whole data set, all its shards.
    explicit InPlace(std::uint64_t data_bytes, std::uint64_t memory = machine_memory())
        : large_(data_bytes <= memory / 8) {}

    // Of a piece of that size; `in_memory()` is asked of large ones alone.
    template <typename Asked>
    bool operator()(std::size_t size, Asked in_memory) const {
        return size < kReadBytes || (large_ && in_memory());
    }

    // `mapped`, which lies at `offset` of the file, or a copy of it in `storage`.
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

// Of bytes that are wanted soon, `ahead` others before them: small ones into the processor's cache as far as there is
// room in it; of large ones `fetch()` asks, which is not to wait for them.
template <typename Fetch>
void prefetch_bytes(std::span<const std::byte> mapped, std::size_t ahead, Fetch fetch) {
    if (mapped.size() >= kReadBytes) {
        fetch();
    } else if (ahead < kPrefetchSamples) {
        prefetch_memory(mapped.data(), mapped.size());
    }
}

}  // namespace stoker

// Whether the bytes of a mapped file are used where they lie, or read into memory of the reader's own: one rule for
// all formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stoker/base/buffer.h"

namespace stoker {

// Smaller pieces are always used where they lie: a read costs more than what it saves.
inline constexpr std::size_t kReadBytes = std::size_t{16} << 10;

// Bytes of memory that the machine has.
std::uint64_t machine_memory();

// All pages of these mapped bytes are in the system's cache (true for no bytes; false where the system does not tell).
bool in_memory(std::span<const std::byte> mapped);

// Larger pieces are used where they lie if they are in memory: that saves the copy. What has to come from a disk is
// read, with one call instead of a fault for every few pages. Used pages count as the process's memory, so that of a
// data set beyond an eighth of the machine's everything large is read.
class InPlace {
  public:
    InPlace() = default;
    // `data_bytes`: of the whole data set, all its shards.
    explicit InPlace(std::uint64_t data_bytes, std::uint64_t memory = machine_memory())
        : fits_(data_bytes <= memory / 8) {}

    bool operator()(std::span<const std::byte> mapped) const {
        return mapped.size() < kReadBytes || (fits_ && probably_in_memory(mapped));
    }

    // The bytes themselves, or what `read(std::span<std::byte>)` puts into `storage`.
    template <typename Read>
    std::span<const std::byte> get(std::span<const std::byte> mapped, Buffer& storage, Read&& read) const {
        if ((*this)(mapped)) {
            return mapped;
        }
        storage.resize(mapped.size());
        read(storage.bytes());
        return storage.bytes();
    }

    // Of bytes that are wanted soon: small ones into the processor's cache, large ones into memory. Waits for nothing.
    void prefetch(std::span<const std::byte> mapped) const;

  private:
    // Asks the system less often where the answer has long been yes: a wrong guess costs a few faults.
    static bool probably_in_memory(std::span<const std::byte> mapped);

    bool fits_ = false;
};

}  // namespace stoker

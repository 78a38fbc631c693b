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

// All pages of these mapped bytes are in the system's cache; true for no bytes. Of a file for which
// File::shows_residency() is false the answer means nothing.
bool in_memory(std::span<const std::byte> mapped);

// Larger pieces are used where they lie if they are in memory: that saves the copy. What has to come from a disk is
// read, with one call instead of a fault for every few pages, and so that a failure is an error and not a signal; all
// that is left to a signal is a file that is cut short between the question and the use. Used pages count as the
// process's memory, so that of a data set beyond an eighth of the machine's everything large is read.
class InPlace {
  public:
    InPlace() = default;
    // `data_bytes`: of the whole data set, all its shards. `shown`: all its files show their residency.
    InPlace(std::uint64_t data_bytes, bool shown, std::uint64_t memory = machine_memory())
        : large_(shown && data_bytes <= memory / 8), shown_(shown) {}

    bool operator()(std::span<const std::byte> mapped) const {
        return mapped.size() < kReadBytes || (large_ && in_memory(mapped));
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

    // Of bytes that are wanted soon, `ahead` others before them: small ones into the processor's cache as far as there
    // is room in it, large ones into memory. A hint: nothing comes of a failure, and it does not wait for a disk,
    // though the system may take some microseconds to ask one.
    void prefetch(std::span<const std::byte> mapped, std::size_t ahead) const;

  private:
    bool large_ = false;  // large pieces may be used in place
    bool shown_ = false;
};

}  // namespace stoker

// Variable-length sequences, read without the library. libhdf5 1.10.8 crashes on a damaged heap, and its H5Dread of
// one sequence takes 16 times as long (21.6 against 1.3 us for 4 kB).
#pragma once

#include <memory>
#include <span>

#include "stoker/formats/hdf5/hdf5_bytes.h"
#include "stoker/formats/hdf5/hdf5_records.h"

namespace stoker {

// The sequence that `record` refers to: its length (4 bytes), the address of a collection of the global heap, and the
// number of an object in it (4 bytes). Throws DataError if there is no such object or it is shorter.
std::span<const std::byte> read_sequence(const Hdf5Bytes& file, std::span<const std::byte> record, Buffer& storage);

class Hdf5Sequences final : public Hdf5Records {
  public:
    Hdf5Sequences(const Hdf5Bytes& file, std::unique_ptr<const Hdf5Records> records)
        : file_(file), records_(std::move(records)) {}

    std::span<const std::byte> read(std::int64_t index, Buffer& storage) const override;

  private:
    const Hdf5Bytes& file_;
    std::unique_ptr<const Hdf5Records> records_;
};

}  // namespace stoker

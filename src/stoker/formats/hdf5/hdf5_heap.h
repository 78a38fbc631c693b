// Variable-length sequences, past the library: a record names a collection of the file's global heap and an object in
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "stoker/formats/hdf5/hdf5_bytes.h"
#include "stoker/formats/hdf5/hdf5_records.h"

namespace stoker {

// The first `length` bytes of object `index` in the collection at `address`. Throws DataError where there is none or
// where it is shorter.
std::span<const std::byte> read_heap_object(const Hdf5Bytes& file, std::uint64_t address, std::uint64_t index,
                                            std::uint64_t length, Buffer& storage);

// Of the sequence that `record` names: length, heap address and index, of 8 + address_bytes bytes.
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

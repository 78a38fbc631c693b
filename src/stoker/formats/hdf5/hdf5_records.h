// The records of an HDF5 dataset, one for each step of its first dimension, by the fastest way that its layout allows.
// Most ways go past the library, which knows only one lock; the way through it reads everything, and is their twin.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "stoker/base/buffer.h"
#include "stoker/formats/hdf5/hdf5_bytes.h"
#include "stoker/formats/hdf5/hdf5_info.h"
#include "stoker/formats/hdf5/hdf5_library.h"

namespace stoker {

enum class Hdf5Access : std::uint8_t {
    fast,
    library,  // every record by H5Dread
};

class Hdf5Records {
  public:
    virtual ~Hdf5Records() = default;

    // The bytes of record `index`, which must be in range: elements of numbers as the file has them, or the bytes of
    // one variable-length sequence. They stay valid as long as the records and `storage`. Many threads at once. Throws
    // DataError or IoError.
    virtual std::span<const std::byte> read(std::int64_t index, Buffer& storage) const = 0;
};

// An open dataset with all that its records need. `fast` falls back to the library for a chunk index of the newer kinds
// past 1,000 chunks or behind a user block, and for compact datasets of variable-length elements.
std::unique_ptr<const Hdf5Records> open_records(const Hdf5Bytes& file, Hdf5Id dataset, const Hdf5Info& info,
                                                Hdf5Access access);

}  // namespace stoker

// The records of an HDF5 dataset, one for each index of its first dimension, or first two (Hdf5Info::record_dims).
// Contiguous and most chunked datasets are read without the library, by many threads at once. The library reads the
// others, one thread at a time.
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
    library,  // H5Dread for every record: the reference in tests
};

class Hdf5Records {
  public:
    virtual ~Hdf5Records() = default;

    // The bytes of record `index`, which must be in range: numbers in the file's byte order, or one variable-length
    // sequence. They stay valid as long as this object and `storage`. Thread-safe. Throws DataError or IoError.
    virtual std::span<const std::byte> read(std::int64_t index, Buffer& storage) const = 0;
};

// `fast` falls back to the library for contiguous datasets that were never written, for chunk indexes of the newer
// kinds with more than 1,000 chunks or in a file with a user block, and for chunked ones whose filters are not applied
// at the edge or whose fill value is a number other than zero. It throws Unsupported for such datasets of
// variable-length elements, since the library crashes on a damaged heap.
std::unique_ptr<const Hdf5Records> open_records(const Hdf5Bytes& file, Hdf5Id dataset, const Hdf5Info& info,
                                                Hdf5Access access);

}  // namespace stoker

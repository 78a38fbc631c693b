// The addresses of a dataset's chunks. We read the index that almost every file has, a B-tree of version 1, because
// libhdf5 1.10.8 walks over all chunks for each one that it is asked for (H5Dget_chunk_info_by_coord: 1.3 ms among
// 100,000), and overflows the stack if a node is its own child.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "stoker/formats/hdf5/hdf5_bytes.h"
#include "stoker/formats/hdf5/hdf5_info.h"
#include "stoker/formats/hdf5/hdf5_library.h"

namespace stoker {

struct Hdf5Chunk {
    std::uint64_t cell = 0;    // its number in the grid of chunks, in C order
    std::uint64_t offset = 0;  // in the file
    std::uint64_t size = 0;    // as stored
    std::uint32_t mask = 0;    // bit i is set if filter i was not applied

    bool operator==(const Hdf5Chunk&) const = default;
};

// The grid of chunks that covers a dataset.
class Hdf5Grid {
  public:
    Hdf5Grid(const Hdf5Info& info, const std::string& path);

    const Shape& cells() const { return cells_; }  // number of chunks along each dimension
    std::uint64_t count() const { return count_; }
    std::uint64_t chunk_bytes() const { return chunk_bytes_; }

    // The number of the chunk whose first element is at `first`; empty if no chunk begins there.
    std::optional<std::uint64_t> cell(const Shape& first) const;

  private:
    Shape shape_;
    Shape chunk_;
    Shape cells_;
    std::uint64_t count_ = 1;
    std::uint64_t chunk_bytes_ = 0;
};

// All chunks that were written, sorted by cell. Throws DataError if a chunk lies outside the file or comes twice. Empty
// if the index is of a newer kind that cannot be read quickly or correctly through the library.
std::optional<std::vector<Hdf5Chunk>> read_chunk_index(const Hdf5Bytes& file, const Hdf5Id& dataset,
                                                       const Hdf5Info& info);

// The same from the library, for the newer kinds of indexes and as the reference in tests. HDF5 up to 1.10.8 reports
// wrong offsets in a file with a user block.
std::vector<Hdf5Chunk> ask_chunk_index(const Hdf5Bytes& file, const Hdf5Id& dataset, const Hdf5Info& info);

// Checks the B-tree of version 1 of a chunked dataset that the library will read, if it has one. Throws as
// read_chunk_index does.
void require_sound_chunk_tree(const Hdf5Bytes& file, const Hdf5Info& info);

}  // namespace stoker

// Where the chunks of a chunked dataset lie. The library tells it too, but looks through half of all chunks for each
// one: 0.5 to 1.6 ms each among 10,000. So the index that almost every file has, a B-tree of version 1, is read here.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "stoker/formats/hdf5/hdf5_bytes.h"
#include "stoker/formats/hdf5/hdf5_info.h"
#include "stoker/formats/hdf5/hdf5_library.h"

namespace stoker {

struct Hdf5Chunk {
    std::uint64_t cell = 0;    // its place in the grid of chunks, the last dimension running fastest
    std::uint64_t offset = 0;  // in the file
    std::uint64_t size = 0;    // as stored
    std::uint32_t mask = 0;    // bit i: filter i was left out

    bool operator==(const Hdf5Chunk&) const = default;
};

// How chunks cover a dataset.
class Hdf5Grid {
  public:
    Hdf5Grid(const Hdf5Info& info, const std::string& path);

    const Shape& cells() const { return cells_; }  // number of chunks along each dimension
    std::uint64_t count() const { return count_; }
    std::uint64_t chunk_bytes() const { return chunk_bytes_; }

    // Of a chunk by its first element; nothing where no chunk begins there.
    std::optional<std::uint64_t> cell(const Shape& first) const;

  private:
    Shape shape_;
    Shape chunk_;
    Shape cells_;
    std::uint64_t count_ = 1;
    std::uint64_t chunk_bytes_ = 0;
};

// In order of their cells, each within the file and none twice (else DataError); those never written are absent.
// Nothing at all where the index is of a newer kind and too long for asking the library.
std::optional<std::vector<Hdf5Chunk>> read_chunk_index(const Hdf5Bytes& file, const Hdf5Id& dataset,
                                                       const Hdf5Info& info);

// The same by asking the library: its twin, and the way for the newer kinds. Wrong behind a user block in releases up
// to 1.10.8, which forget to count it.
std::vector<Hdf5Chunk> ask_chunk_index(const Hdf5Bytes& file, const Hdf5Id& dataset, const Hdf5Info& info);

}  // namespace stoker

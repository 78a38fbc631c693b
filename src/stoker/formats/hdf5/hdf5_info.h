// The description of one dataset in an HDF5 file: element type, shape, and how and where it is stored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stoker/formats/array.h"
#include "stoker/formats/hdf5/hdf5_bytes.h"
#include "stoker/formats/hdf5/hdf5_library.h"

namespace stoker {

enum class Hdf5Kind : std::uint8_t {
    number,
    encoded,  // variable-length uint8: h5py's vlen_dtype('uint8')
    text,
    other,
};

enum class Hdf5Layout : std::uint8_t { compact, contiguous, chunked };

struct Hdf5Filter {
    int id = 0;
    std::string name;
    std::uint64_t first_value = 0;  // its first parameter: the element size of shuffle
};

struct Hdf5Info {
    std::string name;
    Hdf5Kind kind = Hdf5Kind::other;
    ArrayType type;             // if kind is number
    std::string type_name;      // for messages
    bool sequences = false;     // elements of variable length: encoded images, variable-length strings
    std::size_t item_size = 1;  // bytes of an element in the file
    Shape shape;
    Hdf5Layout layout = Hdf5Layout::contiguous;
    bool stored = false;            // contiguous: false if nothing was ever written
    std::uint64_t offset = 0;       // contiguous: offset in the file of the first byte
    std::uint64_t header = 0;       // address of its object header
    Shape chunk;                    // shape of a chunk
    bool unfiltered_edges = false;  // filters are not applied to chunks that reach over the edge
    std::vector<Hdf5Filter> filters;
    std::byte fill{0};  // fill value, if the elements are uint8
};

// Throws Unsupported if addresses or lengths do not have 2, 4 or 8 bytes.
Hdf5Bytes::Superblock read_superblock(const Hdf5Id& file, const std::string& path);

// Throws DataError; Unsupported for virtual and external datasets.
Hdf5Info read_hdf5_info(const Hdf5Id& dataset, const std::string& name, const Hdf5Bytes& file);

// The size of an array of `shape`. Throws DataError, with the dataset's name, if it overflows (checked_array_bytes).
std::uint64_t hdf5_shape_bytes(const Hdf5Info& info, const Shape& shape, const std::string& path);

}  // namespace stoker

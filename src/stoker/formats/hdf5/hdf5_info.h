// What an HDF5 file says of one dataset: its elements, its shape, where and how its bytes are stored.
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
    std::uint64_t first_value = 0;  // of its parameters: shuffle's element size
};

struct Hdf5Info {
    std::string name;
    Hdf5Kind kind = Hdf5Kind::other;
    ArrayType type;             // of numbers
    std::string type_name;      // for messages
    bool sequences = false;     // elements of variable length: encoded images, and text that is stored so
    std::size_t item_size = 1;  // of an element in the file
    Shape shape;
    Hdf5Layout layout = Hdf5Layout::contiguous;
    bool stored = false;       // contiguous: false where nothing was ever written
    std::uint64_t offset = 0;  // contiguous: of the first byte, from the file's beginning on
    std::uint64_t header = 0;  // address of its object header
    Shape chunk;               // the shape of each chunk
    bool plain_edges = false;  // filters leave out chunks that reach over the edge
    std::vector<Hdf5Filter> filters;
    std::byte fill{0};  // of uint8: what is not stored reads as
};

// How places are written in an open file. Throws Unsupported for addresses of other than 2, 4 or 8 bytes.
Hdf5Bytes::Form read_hdf5_form(const Hdf5Id& file, const std::string& path);

// Throws DataError, or Unsupported for layouts that lead to other files.
Hdf5Info describe_hdf5(const Hdf5Id& dataset, const std::string& name, const Hdf5Bytes& file);

// The bytes of `shape`'s elements; checked as checked_array_bytes does, with the dataset's name.
std::uint64_t hdf5_shape_bytes(const Hdf5Info& info, const Shape& shape, const std::string& path);

}  // namespace stoker

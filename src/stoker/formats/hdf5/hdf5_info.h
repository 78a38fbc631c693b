// The description of one dataset in an HDF5 file: element type, shape, and how and where it is stored.
#pragma once

#include <array>
#include <cstdint>
#include <span>
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
    std::size_t record_dims = 1;  // the dimensions that number the records, 1, or 2 for the frames of clips
    Hdf5Layout layout = Hdf5Layout::contiguous;
    bool stored = false;            // contiguous: false if nothing was ever written
    std::uint64_t offset = 0;       // contiguous: offset in the file of the first byte
    std::uint64_t header = 0;       // address of its object header
    Shape chunk;                    // shape of a chunk
    bool unfiltered_edges = false;  // filters are not applied to chunks that reach over the edge
    std::vector<Hdf5Filter> filters;
    std::byte fill{0};        // fill value, if the elements are uint8
    bool other_fill = false;  // the elements are not uint8, and their fill value is not zero
};

// Throws Unsupported if addresses or lengths do not have 2, 4 or 8 bytes.
Hdf5Bytes::Superblock read_superblock(const Hdf5Id& file, const std::string& path);

// Throws DataError; Unsupported for virtual and external datasets.
Hdf5Info read_hdf5_info(const Hdf5Id& dataset, const std::string& name, const Hdf5Bytes& file);

// The coordinates of a record in the `record_dims`.
using Hdf5RecordPlace = std::array<std::int64_t, 2>;
Hdf5RecordPlace hdf5_record_place(const Hdf5Info& info, std::int64_t record);

// The size of an array of `shape`. Throws DataError, with the dataset's name, if it overflows (checked_array_bytes).
std::uint64_t hdf5_shape_bytes(const Hdf5Info& info, const Shape& shape, const std::string& path);

// ---- HDF5's filters on a chunk (hdf5_filters.cpp): deflate, shuffle and the fletcher32 checksum ----

// Throws Unsupported, with the filter's name, for any other filter and for one that occurs twice.
void check_filters(const Hdf5Info& info, const std::string& path);

// The chunk's `size` bytes, from the bytes in the file. Bit i of `mask` is set if filter i was not applied. `size` is
// checked against deflate's largest ratio before memory is allocated. Throws DataError, without a path, for damaged
// bytes or another size.
Buffer undo_filters(std::span<const Hdf5Filter> filters, std::uint32_t mask, std::span<const std::byte> stored,
                    std::uint64_t size);

// HDF5's checksum: two sums over big-endian 16-bit words.
std::uint32_t hdf5_fletcher32(std::span<const std::byte> bytes);

}  // namespace stoker

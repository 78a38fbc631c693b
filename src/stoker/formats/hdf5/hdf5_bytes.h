// The bytes of an HDF5 file, read without the library: through a map or by pread (map_or_read.h), and the numbers in
// HDF5's own structures. Every offset and size is checked against the file's size before memory is read or allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/file.h"
#include "stoker/base/map_or_read.h"
#include "stoker/io/byte_file.h"

namespace stoker {

class Hdf5Bytes {
  public:
    // From the superblock, as the library reports it.
    struct Superblock {
        std::uint64_t base = 0;  // addresses count from here: the size of the user block
        int address_bytes = 8;   // size of an address ("offset" in HDF5's documents)
        int length_bytes = 8;    // size of a length
    };

    explicit Hdf5Bytes(const std::string& path);  // throws IoError

    const std::string& path() const { return path_; }
    std::uint64_t size() const { return map_.bytes().size(); }
    const Superblock& superblock() const { return superblock_; }
    void set_superblock(const Superblock& superblock) { superblock_ = superblock; }

    // `size` mapped bytes at `offset` of the file. Throws DataError, which calls them `what`, if the file is shorter.
    std::span<const std::byte> view(std::uint64_t offset, std::uint64_t size, std::string_view what) const;

    // The same, mapped or read into `storage`: map_or_read.h decides.
    std::span<const std::byte> get(std::uint64_t offset, std::uint64_t size, std::string_view what,
                                   Buffer& storage) const;

    // The offset in the file of an HDF5 address. Throws DataError for an address outside the file.
    std::uint64_t offset_of(std::uint64_t address, std::string_view what) const;

    // True for the undefined address (all ones): nothing was stored.
    bool is_undefined(std::uint64_t address) const;

    // The first `size` bytes at `offset` for messages, such as "4 bytes: 4f 48 44 52"; fewer at the end of the file.
    std::string shown(std::uint64_t offset, std::uint64_t size) const;

    // Throws a DataError with the file's path and the offset.
    [[noreturn]] void damaged(std::uint64_t offset, std::string expected, std::string got) const;

  private:
    std::string path_;
    File file_;
    MappedFile map_;
    MapOrRead map_or_read_;
    Superblock superblock_;
};

// An unsigned little-endian number of at most 8 bytes.
std::uint64_t little_endian(std::span<const std::byte> bytes);

// Reads little-endian numbers one after the other.
class Hdf5Cursor {
  public:
    // Over `size` bytes at `offset`, or up to the end of the file if that comes first.
    Hdf5Cursor(const Hdf5Bytes& file, std::uint64_t offset, std::uint64_t size, std::string_view what);

    std::uint64_t number(int bytes) { return little_endian(take(static_cast<std::size_t>(bytes))); }
    std::uint64_t address() { return number(file_.superblock().address_bytes); }
    std::uint64_t length() { return number(file_.superblock().length_bytes); }
    std::string_view text(std::size_t bytes);
    void skip(std::size_t bytes) { take(bytes); }
    std::size_t left() const { return rest_.size(); }
    std::uint64_t offset() const { return offset_; }

  private:
    std::span<const std::byte> take(std::size_t bytes);

    const Hdf5Bytes& file_;
    std::uint64_t offset_;
    std::span<const std::byte> rest_;
    std::string_view what_;
};

// ---- The global heap (hdf5_heap.cpp), which holds variable-length sequences. libhdf5 1.10.8 crashes on a damaged
// heap, and its H5Dread of one sequence takes 16 times as long (21.6 against 1.3 us for 4 kB). ----

// The sequence that `record` refers to: its length (4 bytes), the address of a collection of the global heap, and the
// number of an object in it (4 bytes). Throws DataError if that object is missing or shorter.
std::span<const std::byte> read_sequence(const Hdf5Bytes& file, std::span<const std::byte> record, Buffer& storage);

// ---- Messages of an object header (hdf5_header.cpp). libhdf5 does not report the address of the chunk index or of a
// compact dataset's elements, and crashes on damaged attributes of variable length and on damaged trees of a group's
// links. ----

// The address of the version 1 B-tree that lists a dataset's chunks; undefined (all ones) if none was written yet.
// `header`: address of the dataset's object header. Empty for a layout message of version 4 or later, which has other
// kinds of indexes. Throws DataError for a damaged header.
std::optional<std::uint64_t> find_chunk_tree(const Hdf5Bytes& file, std::uint64_t header);

// The range of a compact dataset's elements, which its header holds. Throws DataError for a damaged header.
ByteRange find_compact_data(const Hdf5Bytes& file, std::uint64_t header);

// The range from an attribute's values to the end of the header's block. Empty if the header lacks the attribute, or
// stores attributes elsewhere, as newer files do with more than 8.
std::optional<ByteRange> find_attribute(const Hdf5Bytes& file, std::uint64_t header, std::string_view name);

struct Hdf5GroupLinks {
    std::optional<std::uint64_t> tree;   // address of the version 1 B-tree of the group's links
    std::vector<std::uint64_t> headers;  // addresses of the objects that the header itself links to
};

// Both are empty for a dataset. Throws DataError for a damaged header.
Hdf5GroupLinks read_group_links(const Hdf5Bytes& file, std::uint64_t header);

}  // namespace stoker

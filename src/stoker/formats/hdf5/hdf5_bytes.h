// The bytes of an HDF5 file, read without the library: through a map or by pread (map_or_read.h), and the numbers in
// HDF5's own structures. Every offset and size is checked against the file's size before memory is read or allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "stoker/base/buffer.h"
#include "stoker/base/file.h"
#include "stoker/base/map_or_read.h"

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

}  // namespace stoker

// An HDF5 file's bytes, past the library: pieces where they lie or read (in_place.h), and numbers out of its own
// structures. Every place is checked against the file before anything is touched or allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "stoker/base/buffer.h"
#include "stoker/base/file.h"
#include "stoker/base/in_place.h"

namespace stoker {

class Hdf5Bytes {
  public:
    // What the library says of the file: places in it count from `base`, behind a user block, and take
    // `address_bytes`; lengths take `length_bytes`.
    struct Form {
        std::uint64_t base = 0;
        int address_bytes = 8;
        int length_bytes = 8;
    };

    explicit Hdf5Bytes(const std::string& path);  // throws IoError

    const std::string& path() const { return path_; }
    std::uint64_t size() const { return map_.bytes().size(); }
    const Form& form() const { return form_; }
    void set_form(const Form& form) { form_ = form; }

    // From the file's beginning on, out of the map: `what` names it in the DataError where the file ends before.
    std::span<const std::byte> view(std::uint64_t offset, std::uint64_t size, std::string_view what) const;

    // Where they lie, or read into `storage`: in_place.h says when.
    std::span<const std::byte> get(std::uint64_t offset, std::uint64_t size, std::string_view what,
                                   Buffer& storage) const;

    // Fills `out`.
    void copy(std::uint64_t offset, std::span<std::byte> out, std::string_view what) const;

    // The place in the file of an address that it holds; throws DataError for one that lies outside.
    std::uint64_t place(std::uint64_t address, std::string_view what) const;

    // All ones: nothing was stored.
    bool is_nowhere(std::uint64_t address) const;

    // A DataError that names the file and the place.
    [[noreturn]] void damaged(std::uint64_t offset, std::string expected, std::string got) const;

  private:
    std::string path_;
    File file_;
    MappedFile map_;
    InPlace in_place_;
    Form form_;
};

// Little-endian numbers one after the other.
class Hdf5Cursor {
  public:
    // `size` bytes from `offset` on, or the file's rest where it ends before.
    Hdf5Cursor(const Hdf5Bytes& file, std::uint64_t offset, std::uint64_t size, std::string_view what);

    std::uint64_t number(int bytes);
    std::uint64_t address() { return number(file_.form().address_bytes); }
    std::uint64_t length() { return number(file_.form().length_bytes); }
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

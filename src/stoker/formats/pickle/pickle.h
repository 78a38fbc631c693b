// Reads pickles without executing them: the opcodes that build dicts, lists, tuples, numbers, text, bytes, NumPy arrays
// and scalars, and torch tensors. Other objects are refused, or left out with all that they hold.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/array.h"

namespace stoker {

// A torch tensor. Its elements are in a storage, which is another member of the .pt file.
struct PickledTensor {
    std::string_view storage;  // the key, such as "0"
    ArrayType type;
    std::int64_t offset = 0;  // in elements
    Shape shape;
    Shape strides;  // in elements
};

class Pickle;
class PickleReader;

// A handle to one value. Valid while its Pickle and the bytes that it was read from are.
class PickleValue {
  public:
    // `real` is a Python float. `other` is a value that only others refer to, such as a NumPy dtype, a torch storage or
    // the name of a class, and an object that is left out.
    enum class Kind : std::uint8_t {
        none,
        boolean,
        integer,
        real,
        text,
        bytes,
        list,
        tuple,
        dict,
        array,
        tensor,
        other
    };

    Kind kind() const;

    // Each throws DataError, with the kind found, if the value is of another kind.
    std::int64_t integer() const;   // also for booleans and integer arrays of one element (NumPy scalars)
    double real() const;            // of a float
    std::string_view text() const;  // also for bytes, which is how Python 2 wrote text
    std::span<const std::byte> bytes() const;
    ArrayView array() const;  // without a name
    PickledTensor tensor() const;

    // The stored bytes of an integer: the operand of BININT, BININT1, BININT2 or LONG1 of 8 bytes, or a NumPy scalar.
    // Empty for integers in other encodings and for other values.
    std::optional<ArrayView> stored_integer() const;

    // The number of entries of a list or tuple, or of pairs of a dict (a key that was set twice counts twice).
    std::size_t size() const;
    PickleValue operator[](std::size_t at) const;  // an entry of a list or tuple, or a dict's value
    PickleValue key(std::size_t at) const;         // a dict's key

    // The dict's value for a text key, or for a bytes key of the same characters, as Python 2 wrote them. The last one
    // set counts.
    std::optional<PickleValue> find(std::string_view key) const;

    // To be called before `bytes` of text, or as many numbers, are copied out of a value: a small pickle may refer to
    // one list or one long text many times. Throws DataError if it all is much more than the pickle has.
    void count_copied(std::uint64_t bytes) const;

    // "dict of 2", "text", "uint8 array of (32, 32, 3)", "object of my.Class": for messages.
    std::string describe() const;

  private:
    friend class Pickle;
    PickleValue(const PickleReader& reader, std::uint32_t node) : reader_(&reader), node_(node) {}
    [[noreturn]] void refuse(const char* expected) const;

    const PickleReader* reader_;
    std::uint32_t node_;
};

// What happens to objects of other types than the ones above.
enum class OtherObjects : std::uint8_t { refused, left_out };

class Pickle {
  public:
    // `where` is the path that messages about unsupported opcodes and names show.
    explicit Pickle(std::string where = "pickle", OtherObjects others = OtherObjects::refused);
    Pickle(const Pickle&) = delete;
    Pickle& operator=(const Pickle&) = delete;
    ~Pickle();

    // Reads one pickle, protocols 0 to 5, and returns its root; bytes after it are ignored. Invalidates the values of
    // an earlier read and reuses its memory. The values point into `bytes`. Time is linear in the bytes; memory is at
    // most about forty times their size, since one byte may be an empty list. Throws DataError with the offset for
    // damaged bytes, Unsupported for an opcode or name that is not allowed. After a throw all values are gone.
    PickleValue read(std::span<const std::byte> bytes);

  private:
    std::unique_ptr<PickleReader> reader_;
};

}  // namespace stoker

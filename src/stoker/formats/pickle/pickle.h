// Reads pickles without running them: a small set of opcodes that build dicts, lists, tuples, numbers, text, bytes,
// NumPy arrays and scalars, torch tensors. Every other opcode and every other name is refused and named.
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

// A torch tensor by reference: its elements lie in a storage of their own, in another member of the file.
struct PickledTensor {
    std::string_view storage;  // its key
    ArrayType type;
    bool bfloat16 = false;
    std::int64_t offset = 0;  // in elements
    Shape shape;
    Shape strides;  // in elements
};

class Pickle;
class PickleReader;

// One value: a handle, valid as long as its Pickle and the bytes that it was read from.
class PickleValue {
  public:
    // `other` is what is of no use by itself: a NumPy dtype, a torch storage, the name of a class.
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

    // Each throws DataError, saying what was found, where the value is of another kind.
    std::int64_t integer() const;   // of booleans and integral arrays of one element (NumPy scalars) too
    double real() const;            // of integers too
    std::string_view text() const;  // of bytes too, as Python 2 wrote text
    std::span<const std::byte> bytes() const;
    ArrayView array() const;  // without a name
    PickledTensor tensor() const;

    // The bytes that an integer was read from, of one opcode's operand or of a NumPy scalar; empty for other values,
    // and for integers that are written in another way.
    std::optional<ArrayView> stored_integer() const;

    // Entries of a list or tuple, pairs of a dict (with a key that was set twice, both).
    std::size_t size() const;
    PickleValue operator[](std::size_t at) const;  // of a list or tuple; a dict's value
    PickleValue key(std::size_t at) const;         // of a dict

    // The dict's value under a text key (or a bytes key of the same letters, as Python 2 wrote them); the last one set.
    std::optional<PickleValue> find(std::string_view key) const;

    // "dict of 2", "text", "uint8 array of (32, 32, 3)": for messages.
    std::string describe() const;

  private:
    friend class Pickle;
    PickleValue(const PickleReader& reader, std::uint32_t node) : reader_(&reader), node_(node) {}
    [[noreturn]] void refuse(const char* expected) const;

    const PickleReader* reader_;
    std::uint32_t node_;
};

class Pickle {
  public:
    // `where` is what errors say of names and opcodes that are not safe: a path.
    explicit Pickle(std::string where = "pickle");
    Pickle(const Pickle&) = delete;
    Pickle& operator=(const Pickle&) = delete;
    ~Pickle();

    // Reads one pickle, protocols 0 to 5; what an earlier read gave is gone, its memory is kept for this one. The
    // values point into `bytes`. Work is linear in the bytes, memory at most some forty times as many (a byte may be
    // a whole empty list). Throws DataError with the offset for damaged bytes, Unsupported for an opcode or a name that
    // is not among the safe ones. After a throw there are no values.
    PickleValue read(std::span<const std::byte> bytes);

    // How many of the bytes the pickle took: what follows it is not looked at.
    std::size_t used() const;

  private:
    std::unique_ptr<PickleReader> reader_;
};

}  // namespace stoker

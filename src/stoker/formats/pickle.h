// Reads pickles without running them: a small set of opcodes that build dicts, lists, tuples, numbers, text, bytes,
// NumPy arrays and scalars, torch tensors. Every other opcode and every other name is refused and named.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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

// One value: a handle, valid as long as its Pickle and the bytes that it was read from.
class PickleValue {
  public:
    enum class Kind : std::uint8_t { none, boolean, integer, real, text, bytes, list, tuple, dict, array, tensor };

    Kind kind() const;

    // Each throws DataError, saying what was found, where the value is of another kind.
    std::int64_t integer() const;  // of booleans and integral arrays of one element (NumPy scalars) too
    double real() const;           // of integers too
    std::string_view text() const;
    std::span<const std::byte> bytes() const;
    ArrayView array() const;  // without a name
    PickledTensor tensor() const;

    // Entries of a list or tuple, pairs of a dict.
    std::size_t size() const;
    PickleValue operator[](std::size_t at) const;  // of a list or tuple; a dict's value
    PickleValue key(std::size_t at) const;         // of a dict

    // The dict's value under a text key (or a bytes key of the same letters, as Python 2 wrote them).
    std::optional<PickleValue> find(std::string_view key) const;

    // "dict of 2", "text", "uint8 array (32, 32, 3)": for messages.
    std::string describe() const;

  private:
    friend class Pickle;
    PickleValue(const Pickle& pickle, std::uint32_t node) : pickle_(&pickle), node_(node) {}

    const Pickle* pickle_;
    std::uint32_t node_;
};

class Pickle {
  public:
    Pickle();
    Pickle(const Pickle&) = delete;
    Pickle& operator=(const Pickle&) = delete;
    ~Pickle();

    // Reads one pickle, protocols 0 to 5; what an earlier read gave is gone, its memory is kept for this one. The
    // values point into `bytes`. Work and memory are bounded by a small multiple of the bytes. Throws DataError
    // with the offset for damaged bytes, Unsupported for an opcode or a name that is not among the safe ones.
    PickleValue read(std::span<const std::byte> bytes);

    // How many of the bytes the pickle took: what follows it is not looked at.
    std::size_t used() const;

  private:
    friend class PickleValue;
    struct Nodes;
    std::unique_ptr<Nodes> nodes_;
};

}  // namespace stoker

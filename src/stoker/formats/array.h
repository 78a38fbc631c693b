// An array as some file holds it: NumPy's, torch's, HDF5's. Element types go beyond what tensors of ours have, since
// labels come in all of them; images are uint8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "stoker/base/buffer.h"
#include "stoker/base/file.h"
#include "stoker/base/tensor_view.h"
#include "stoker/formats/dataset.h"

namespace stoker {

enum class ArrayKind : std::uint8_t { boolean, signed_integer, unsigned_integer, floating };

struct ArrayType {
    ArrayKind kind = ArrayKind::unsigned_integer;
    int item_size = 1;  // bytes: 1, 2, 4 or 8
    bool big_endian = false;

    bool operator==(const ArrayType&) const = default;
    bool is_uint8() const { return kind == ArrayKind::unsigned_integer && item_size == 1; }
};

// "uint8", "float32", "int64 (big-endian)": for messages.
std::string array_type_name(const ArrayType& type);

// Dense elements, the last index running fastest, or the first one where `fortran` is set. Who makes a view has
// checked that `bytes` is exactly as long as type and shape say.
struct ArrayView {
    std::string name;  // empty in a file of one array
    ArrayType type;
    Shape shape;
    bool fortran = false;
    std::span<const std::byte> bytes;
    // Where the elements also lie in a file, for readers that would rather copy than map: null where they do not.
    const File* file = nullptr;
    std::uint64_t offset = 0;
};

// The bytes that `shape` takes; throws DataError where a side is negative or the product does not fit 63 bits.
std::uint64_t checked_array_bytes(const ArrayType& type, const Shape& shape);

// Element `at` (in the order of the bytes) of an integer or boolean array. Throws DataError for other types.
std::int64_t integer_at(const ArrayView& array, std::int64_t at);

// How one image lies in an array of its own: (H, W), (H, W, C) or (C, H, W), C being 1 to 4; for three sides that fit
// both ways the last one is the channels.
struct ImageArray {
    int height = 0;
    int width = 0;
    int channels = 1;
    bool planes = false;  // (C, H, W)
};

// Throws DataError for another type than uint8 or another shape, saying which was found.
ImageArray image_array(const ArrayType& type, const Shape& shape);

// Hands over an image's elements as raw pixels (H, W, C): as they are where they lie so, else turned into
// `sample.storage`. Sets bytes, encoded, height, width and channels.
void set_pixels(const ImageArray& layout, bool fortran, std::span<const std::byte> bytes, Sample& sample);

}  // namespace stoker

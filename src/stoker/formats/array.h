// A view of an array in a file of NumPy, torch or HDF5. It has more element types than DType, because labels are stored
// in all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/base/file.h"
#include "stoker/base/tensor_view.h"
#include "stoker/formats/dataset.h"

namespace stoker {

enum class ArrayKind : std::uint8_t { boolean, signed_integer, unsigned_integer, floating, bfloat16 };

struct ArrayType {
    ArrayKind kind = ArrayKind::unsigned_integer;
    int item_size = 1;  // bytes: 1, 2, 4 or 8
    bool big_endian = false;

    bool operator==(const ArrayType&) const = default;
    bool is_uint8() const { return kind == ArrayKind::unsigned_integer && item_size == 1; }
    bool is_float() const { return kind == ArrayKind::floating || kind == ArrayKind::bfloat16; }
};

// "uint8", "float32", "int64 (big-endian)": for messages.
std::string array_type_name(const ArrayType& type);

// The little-endian type of a NumPy type code, such as 'f' and 4 bytes for "f4"; empty for other types.
std::optional<ArrayType> numpy_type(char code, std::uint64_t item_size);

// The DType of the same elements; booleans are uint8. Empty if there is none.
std::optional<DType> dtype_of_array(const ArrayType& type);

// Dense elements in C order, or in Fortran order if `fortran` is set. The creator of a view guarantees that `bytes`
// has exactly the length that type and shape need.
struct ArrayView {
    std::string name;  // empty in a file of one array
    ArrayType type;
    Shape shape;
    bool fortran = false;
    std::span<const std::byte> bytes;
    // The file that holds the same elements at `offset`, for readers that copy instead of using the map; null if the
    // elements are not stored plainly in one.
    const File* file = nullptr;
    std::uint64_t offset = 0;
};

// The size of an array in bytes. Throws DataError if a side is negative or the size is 2^63 or more.
std::uint64_t checked_array_bytes(const ArrayType& type, const Shape& shape);

// Element `at`, in storage order, of an integer or boolean array. Throws DataError for other types.
std::int64_t integer_at(const ArrayView& array, std::int64_t at);

// The layout of one image: (H, W), (H, W, C) or (C, H, W), where C is 1 to kMaxChannels. The last of three sides is
// the channels if it is at most 4, else the first if that is; else the shorter of the two, if it may be. A clip or a
// volume has one more side, in front.
struct ImageArray {
    int height = 0;
    int width = 0;
    int channels = 1;
    bool planes = false;         // (C, H, W)
    DType dtype = DType::uint8;  // float32 for bfloat16
    bool bfloat16 = false;       // as stored
    bool big_endian = false;
    std::int64_t frames = 0;  // 0: one image

    std::size_t stored_item_size() const { return bfloat16 ? item_size(DType::bfloat16) : item_size(dtype); }
};

// Three sides are (T, H, W) if `clips`. Throws DataError, with the type and shape found, for a
// type that images do not have (is_image_dtype) or any other shape.
ImageArray image_array(const ArrayType& type, const Shape& shape, bool clips = false);
ImageArray image_array(DType dtype, const Shape& shape, bool clips = false);

// The same of a field of this kind: masks are of one channel, so their three sides are (T, H, W).
inline ImageArray image_array(FieldKind kind, const ArrayType& type, const Shape& shape) {
    return image_array(type, shape, kind == FieldKind::mask);
}

// Makes `value` refer to raw pixels: to `bytes` if they are little-endian in C order, not bfloat16 and, of up to 4
// channels of uint8, (H, W, C), otherwise to a copy in `value.storage`. `bytes` may be part of `value.storage`. A clip
// gets the frames that `value.wanted` names.
void set_pixels(const ImageArray& layout, bool fortran, std::span<const std::byte> bytes, FieldValue& value);

// ---- Labels: class indices, or one-hot rows ----

// True if type and shape fit labels of `count` samples.
bool may_be_labels(const ArrayView& array, std::int64_t count);

// The labels of `count` samples: integers of shape (N) or (N, 1), or one-hot rows (N, K) of integers or floats. -1
// means "no label"; smaller values are refused. Throws DataError with the row, type and shape. `first` is added to the
// row in messages, for an array that is a slice of another.
std::vector<std::int64_t> array_labels(const ArrayView& array, std::int64_t count, std::int64_t first = 0);

}  // namespace stoker

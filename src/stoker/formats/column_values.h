// Values of samples that hold named columns as bytes, each in an encoding that the whole column has: MDS and LitData.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "stoker/formats/array.h"
#include "stoker/formats/dataset.h"
#include "stoker/formats/field_values.h"

namespace stoker {

enum class ColumnKind : std::uint8_t {
    image,      // an encoded image, or a recording
    raw_image,  // Pillow's pixels: width, height and length of the mode as uint32, the mode, the pixels
    images,     // a list of one of these
    array,      // SampleColumn::array reads it; a number is one without sides
    numbers,    // SampleColumn::numbers reads them
    text,
    bytes,
    refused,  // cannot be read
};

struct SampleColumn {
    std::string name;
    std::string encoding;  // as the data name it
    ColumnKind kind = ColumnKind::bytes;
    // Both throw DataError. The array is a view of the bytes.
    std::function<ArrayView(std::span<const std::byte>)> array = {};
    std::function<FieldNumbers(std::span<const std::byte>)> numbers = {};
    std::size_t list_begin = 0;  // images: the bytes before the count, which is a uint32
    bool raw_list = false;       // images: raw ones
    bool fixed = false;          // all values have one type and shape
    bool scalar = false;         // each is one number
};

// The array of `type` and `shape` that is all of `bytes`. Throws DataError for another size.
ArrayView whole_array(const ArrayType& type, Shape shape, std::span<const std::byte> bytes);

// The field that has `bytes` as its value in one sample. Without a kind in the request it is an image, a value, or
// bytes. Throws DataError, and Unsupported with `where` for a column that cannot be read or does not fit the kind.
Field describe_column(const FieldRequest& request, const SampleColumn& column, std::span<const std::byte> bytes,
                      const std::string& where);

// Sets `value`, whose storage may hold `bytes`. Throws DataError.
void read_column(const Field& field, const SampleColumn& column, std::span<const std::byte> bytes, FieldValue& value);

// The same for the image of a sample. `clips`: as for image_array.
void read_column_image(const SampleColumn& column, std::span<const std::byte> bytes, FieldValue& value, bool clips);

// A class index of 0 or more, or -1. Throws DataError for other values.
std::int64_t column_label(const SampleColumn& column, std::span<const std::byte> bytes);

}  // namespace stoker

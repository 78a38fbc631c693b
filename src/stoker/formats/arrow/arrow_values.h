// Values of Arrow columns. Offsets and indices are checked where they are used: a file's bytes may be anything.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stoker/base/buffer.h"
#include "stoker/formats/array.h"
#include "stoker/formats/arrow/arrow_type.h"

namespace stoker {

// The value of a column at `row`.
struct ArrowCell {
    const ArrowType* type = nullptr;
    const ArrowArray* array = nullptr;
    std::int64_t row = 0;  // in [0, array->length)

    bool is_null() const;
    // Field `at` of a struct.
    ArrowCell child(std::size_t at) const;
    // Text or binary, or an entry of a dictionary of these; not null.
    std::span<const std::byte> bytes() const;
    // A number, a boolean, or a list of them of any depth, whose lists have one length at each depth, as an array: of
    // no side, of one, ... `bytes` is in the column or in `storage`. `inside`: the fields to follow in lists of
    // structs. Throws DataError for nulls in it, and lists of different lengths.
    ArrayView numbers(Buffer& storage, std::span<const std::string> inside = {}) const;
    // The values of a list.
    std::vector<ArrowCell> items() const;
};

// True for the types that ArrowCell::numbers reads.
bool has_numbers(const ArrowType& type);

// The element's type that numbers() gives.
ArrayType number_type(const ArrowType& type);

// The memory of an array's values.
std::size_t arrow_bytes(const ArrowType& type, const ArrowArray& array);

// An array with its sides in another order: side i of the result is side order[i] of `from`. Written to `out`.
void permute_sides(std::span<const std::byte> from, const Shape& sides, std::span<const std::size_t> order,
                   std::size_t item, std::span<std::byte> out);

}  // namespace stoker

// Further fields of samples on their way from a data set into a packed one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/formats/stk/stk_schema.h"

namespace stoker {

// The field of an stk schema that holds the values of `field`: images and masks are images, bytes are bytes, one int64
// or float64 is an int or float, all others are tensors.
StkField stk_field_of(const Field& field);

// The element type and shape of a value that is stored as an array: of pixels (H, W, C), or (H, W) for one channel, of
// numbers and tensors. Empty for encoded images and bytes.
struct StoredArray {
    DType dtype = DType::uint8;
    Shape shape;
};
std::optional<StoredArray> stored_array(const StkValue& value);

// Throws InvalidArgument for a field of bfloat16, which NumPy's formats do not have. `where`: the target.
void refuse_bfloat16(std::span<const Field> fields, const std::string& where);

// A view of the value as that kind. Throws DataError for a value whose size does not fit the field.
StkValue packed_value(const Field& field, const FieldValue& value);

// The bytes that a target stores for it, without a header.
std::span<const std::byte> value_bytes(const StkValue& value);

// `seed`, changed by the values: equal for equal values.
std::uint64_t hash_values(std::span<const StkValue> values, std::uint64_t seed);

// With which a packed data set is opened to read the same fields.
std::vector<FieldRequest> requests_of(std::span<const Field> fields);

// "mask=seg.png:mask": as --field takes it. `from`: the field's name in the source; empty: the same.
std::string field_text(const Field& field, const std::string& from);

// Throws InvalidArgument for a name that is none of is_field_name (recipe/field_keys.h), two equal ones, and those in
// `taken`, which the format uses itself. Case does not make a difference.
void check_field_names(std::span<const Field> fields, const std::string& where,
                       std::span<const std::string_view> taken = {});

}  // namespace stoker

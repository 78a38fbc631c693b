// LitData's serializers: their names in an index, and how bytes become values.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "stoker/formats/column_values.h"

namespace stoker {

// The column whose serializer is called "jpeg", "int", "no_header_tensor:17", ... Unknown ones, and pickles, are
// refused when they are read.
SampleColumn litdata_column(std::string name, const std::string& serializer);

// The type of "no_header_tensor:17" and "no_header_numpy:6"; empty for other serializers.
std::optional<ArrayType> litdata_flat_type(std::string_view serializer);

// Numbers in the serializer "json": one, or a list, in its binary form or as JSON. Throws DataError for other values.
FieldNumbers litdata_numbers(std::span<const std::byte> bytes);

}  // namespace stoker

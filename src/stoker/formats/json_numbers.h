// Numbers in JSON as values of further fields.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "stoker/formats/field_values.h"

namespace stoker {

// A number, a list of numbers, or a list of lists of one length; booleans are 0 and 1. Throws DataError, without a
// path, for other JSON.
FieldNumbers json_numbers(const nlohmann::json& value);

}  // namespace stoker

// Checks that all samples have different keys, for formats that find a sample by its key.
#pragma once

#include <string_view>

#include "stoker/formats/dataset.h"

namespace stoker {

// Throws DataError that names two samples with the same key. `format`: of the target, for the message.
void check_unique_keys(const Dataset& dataset, std::string_view format);

}  // namespace stoker

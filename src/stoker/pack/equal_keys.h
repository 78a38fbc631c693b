// Keys that two samples share: some formats find a sample by its key and cannot hold them.
#pragma once

#include <string_view>

#include "stoker/formats/dataset.h"

namespace stoker {

// Throws DataError that names two samples with one key. `format`: of the target, for the message.
void refuse_equal_keys(const Dataset& dataset, std::string_view format);

}  // namespace stoker

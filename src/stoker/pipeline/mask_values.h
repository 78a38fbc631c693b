// The values that masks hold, from some of them.
#pragma once

#include <array>
#include <cstdint>

#include "stoker/formats/dataset.h"

namespace stoker {

// How many pixels have each value in the masks of `most` samples, spread evenly over the data set. `field`: its number
// in Dataset::fields(). Samples that cannot be read are left out.
std::array<std::int64_t, 256> count_mask_values(const Dataset& dataset, std::size_t field, std::int64_t most);

}  // namespace stoker

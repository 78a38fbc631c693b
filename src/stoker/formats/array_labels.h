// Labels out of an array: class indices as they stand, or rows with a single 1.
#pragma once

#include <cstdint>
#include <vector>

#include "stoker/formats/array.h"

namespace stoker {

// One label for each of `count` samples, of an array (N) or (N, 1) of integers, or (N, K) of integers or floats in
// which each row is one 1 and zeros otherwise. -1 is "no label"; anything below is refused. Throws DataError with the
// row, naming type and shape.
std::vector<std::int64_t> array_labels(const ArrayView& array, std::int64_t count);

}  // namespace stoker

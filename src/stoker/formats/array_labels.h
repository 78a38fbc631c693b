// Labels out of an array: class indices as they stand, or rows with a single 1.
#pragma once

#include <cstdint>
#include <vector>

#include "stoker/formats/array.h"

namespace stoker {

// Whether type and shape are those of labels of so many samples.
bool may_be_labels(const ArrayView& array, std::int64_t count);

// One label for each of `count` samples, of an array (N) or (N, 1) of integers, or (N, K) of integers or floats in
// which each row is one 1 and zeros otherwise. -1 is "no label"; anything below is refused. Throws DataError with the
// row, naming type and shape. `first`: the number of the first row, where the array is a part of another.
std::vector<std::int64_t> array_labels(const ArrayView& array, std::int64_t count, std::int64_t first = 0);

}  // namespace stoker

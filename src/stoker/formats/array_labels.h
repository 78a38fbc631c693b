// Reads labels from an array: class indices, or one-hot rows.
#pragma once

#include <cstdint>
#include <vector>

#include "stoker/formats/array.h"

namespace stoker {

// True where type and shape fit labels of `count` samples.
bool may_be_labels(const ArrayView& array, std::int64_t count);

// The labels of `count` samples: integers of shape (N) or (N, 1), or one-hot rows (N, K) of integers or floats. -1
// means "no label"; smaller values are refused. Throws DataError with the row, type and shape. `first` is added to the
// row in messages, for an array that is a slice of another.
std::vector<std::int64_t> array_labels(const ArrayView& array, std::int64_t count, std::int64_t first = 0);

}  // namespace stoker

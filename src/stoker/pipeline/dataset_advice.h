// Facts about a data set that its user should know.
#pragma once

#include <string>

#include "stoker/formats/dataset.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker {

// "12 bits in 16; {op = "window", ...} makes them 0 to 1", for uint16 images with values up to `high`; empty if they
// use the highest bit. A model would get small numbers.
std::string few_bits_advice(float high);

// Dataset::advice(), and facts for which a few samples of local data are read: whether images of 16 bits are reduced to
// 8, or use few of their bits and `transform` does not scale them, and whether TIFFs have several pages that
// are not read as `clips`. Empty if there is nothing to say.
std::string dataset_advice(const Dataset& dataset, const Transform* transform = nullptr, bool clips = false);

}  // namespace stoker

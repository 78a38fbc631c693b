// Facts about a data set that its user should know.
#pragma once

#include <string>

#include "stoker/formats/dataset.h"

namespace stoker {

// Dataset::advice(), and whether the first image has more bits than the 8 that are read, for which one sample of local
// data is read. Empty if there is nothing to say.
std::string dataset_advice(const Dataset& dataset);

}  // namespace stoker

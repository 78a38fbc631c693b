// A part of a data set that stands for all of it.
#pragma once

#include <cstdint>
#include <memory>

#include "stoker/formats/dataset.h"

namespace stoker::cli {

// About `samples` samples, spread over the data set; 0: all.
std::shared_ptr<const Dataset> part_of(std::shared_ptr<const Dataset> dataset, std::int64_t samples);

}  // namespace stoker::cli

// The numbers of workers and threads that tuning tries.
#pragma once

#include <vector>

#include "stoker/diagnose/prediction.h"

namespace stoker {

// The most workers that are tried.
int most_workers(double cores);

// Workers from 0 to twice the cores (at least 4), threads from 1 to the cores; on many cores in growing
// strides. With a GPU the threads stay as they are measured.
std::vector<Setting> settings_to_try(const Costs& costs, bool on_device);

}  // namespace stoker

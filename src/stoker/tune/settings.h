// The numbers of workers and threads that tuning tries, and of samples that a trial with a cache uses.
#pragma once

#include <cstdint>
#include <vector>

#include "stoker/diagnose/prediction.h"

namespace stoker {

// The most workers that are tried.
int most_workers(double cores);

// Workers from 0 to twice the cores (at least 4), threads from 1 to the cores; on many cores in growing
// strides. With a GPU the number of threads stays the measured one.
std::vector<Setting> settings_to_try(const Costs& costs, bool on_device);

// A cached trial trains on a part of the data, again and again. A pass takes two seconds, or longer if batches are
// slow, so that the end of an epoch and its reading of losses do not count much.
std::int64_t samples_of_pass(const Costs& costs, std::int64_t batch_size);

}  // namespace stoker

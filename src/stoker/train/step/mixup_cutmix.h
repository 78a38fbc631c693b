// Mixup and cutmix of whole batches on the device, with soft targets; ops/mixup and ops/cutmix draw, and are the twins
// of the arithmetic.
#pragma once

#include <cstdint>

#include "stoker/bridge/device.h"

namespace stoker {

struct MixupCutmixOptions {
    double mixup = 0;   // alpha of Beta(alpha, alpha); 0: never
    double cutmix = 0;  // the same; with both, each batch gets one or the other by a coin
    std::int64_t classes = 1;
    std::uint64_t seed = 0;

    bool any() const { return mixup > 0 || cutmix > 0; }
};

// Mixes each sample of `batch` with the one before, in place, as (seed, epoch, number of the batch) say; its labels
// become float32 (N, classes).
void mix(DeviceBatch& batch, const MixupCutmixOptions& options, std::int64_t epoch, std::int64_t number);

}  // namespace stoker

// Mixup and cutmix of batches on the device, with soft targets. ops/mixup_cutmix_params draws the parameters; the tests
// compare the arithmetic with references on plain memory.
#pragma once

#include <cstdint>
#include <functional>

#include "stoker/bridge/device.h"

namespace stoker {

struct MixupCutmixOptions {
    double mixup = 0;   // alpha of Beta(alpha, alpha); 0: never
    double cutmix = 0;  // the same; with both, each batch gets one of them at random
    std::int64_t classes = 1;
    std::uint64_t seed = 0;

    bool any() const { return mixup > 0 || cutmix > 0; }
};

// Returns for the samples of a batch (N, ...) the ones before them: row i is sample i - 1, and row 0 the last sample.
using RollSamples = std::function<at::Tensor(const at::Tensor& samples)>;
at::Tensor roll_samples(const at::Tensor& samples);

// Mixes each sample of `batch` with the one before it, in place, drawing from (seed, epoch, number of the batch).
// Images that are bytes are normalised first. The targets become float32 (N, classes). `roll`: if the batch is a rank's
// slice of one, it takes the sample before the slice from another rank.
void mix(DeviceBatch& batch, const MixupCutmixOptions& options, std::int64_t epoch, std::int64_t number,
         const RollSamples& roll = roll_samples);

}  // namespace stoker

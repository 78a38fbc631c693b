// Which frames a loader reads of clips and volumes, and which part of sounds.
#pragma once

#include <cstdint>

#include "stoker/base/rng.h"
#include "stoker/formats/dataset.h"

namespace stoker {

// The frames that are read of clips and volumes.
struct ClipOptions {
    std::int64_t frames = 0;      // 0: all, which all samples must then have
    std::int64_t stride = 1;      // the distance of neighbours, in frames
    std::int64_t per_sample = 1;  // the data set has each sample this many times in a row
    bool random = true;           // a clip begins anywhere; false: clips are evenly spread, one alone is in the middle
    int sample_rate = 0;          // of sounds, in Hz: they are resampled; 0: the samples are not sounds
    double seconds = 0;           // of sounds; 0: all, which all samples must then have
};

// Those of sample `index`; `key.op` is ignored.
FrameWindow wanted_frames(const ClipOptions& options, std::int64_t index, RngKey key);

}  // namespace stoker

#include "stoker/pipeline/clip_options.h"

#include <algorithm>
#include <cmath>

namespace stoker {

FrameWindow wanted_frames(const ClipOptions& options, std::int64_t index, RngKey key) {
    constexpr std::uint16_t kFramesOp = 0xFFFF;  // behind the places of all ops
    FrameWindow wanted{.count = options.frames, .stride = options.stride, .sample_rate = options.sample_rate};
    if (options.seconds > 0) {
        wanted.count = std::max(std::llround(options.seconds * options.sample_rate), 1LL);
    }
    if (wanted.count == 0) {
        return wanted;
    }
    if (options.random) {
        key.op = kFramesOp;
        wanted.at = Rng(key).uniform();
    } else if (options.per_sample > 1) {
        wanted.at = static_cast<double>(index % options.per_sample) / static_cast<double>(options.per_sample - 1);
    }
    return wanted;
}

}  // namespace stoker

#include "stoker/pipeline/clip_options.h"

namespace stoker {

FrameWindow wanted_frames(const ClipOptions& options, std::int64_t index, RngKey key) {
    constexpr std::uint16_t kFramesOp = 0xFFFF;  // behind the places of all ops
    if (options.frames == 0) {
        return {};
    }
    FrameWindow wanted{.count = options.frames, .stride = options.stride};
    if (options.random) {
        key.op = kFramesOp;
        wanted.at = Rng(key).uniform();
    } else if (options.per_sample > 1) {
        wanted.at = static_cast<double>(index % options.per_sample) / static_cast<double>(options.per_sample - 1);
    }
    return wanted;
}

}  // namespace stoker

// The draws for the pixels of an output whose crop, resize and flips are done: steps that change colours, then an
// erased box. OutputDraw is a part of GatherDraw and AssembleDraw, and travels to a device as bytes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "stoker/base/image.h"
#include "stoker/ops/color_jitter.h"
#include "stoker/ops/color_kernels.h"

namespace stoker {

struct OutputDraw {
    static constexpr int kMost = 5;  // color_jitter has at most four steps, random_grayscale one

    std::uint64_t noise = 0;  // the seed of the bytes in `erased`
    Box erased{};             // height 0: nothing
    std::int32_t steps = 0;   // how many of the following
    ColorStep step[kMost] = {};
    float factor[kMost] = {};  // ColorStage::factor

    // A step, and those of a color_jitter that change something. Throw InvalidArgument for more steps.
    void add(ColorStep kind, float by = 1);
    void add(const ColorJitterParams& params);
};
static_assert(sizeof(OutputDraw) == 72 && std::is_trivially_copyable_v<OutputDraw>);

}  // namespace stoker

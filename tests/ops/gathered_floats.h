// A GatherBatch as a device computes it, in host memory: one gather, or, if colours change, a gather of bytes, colors
// and a normalisation value by value.
#pragma once

#include <vector>

#include "stoker/ops/colors.h"
#include "stoker/ops/gather.h"

namespace stoker::testing {

// `batch` without `out`, of float32.
inline std::vector<float> gathered_floats(GatherBatch batch) {
    const auto channels = static_cast<std::size_t>(batch.channels);
    const std::size_t pixels = static_cast<std::size_t>(batch.to.height) * static_cast<std::size_t>(batch.to.width);
    const auto count = static_cast<std::size_t>(batch.n);
    std::vector<float> floats(count * pixels * channels);
    if (!batch.ops.colors) {
        batch.out = floats.data();
        gather(batch);
        return floats;
    }
    const bool planes = batch.layout == Layout::chw;
    std::vector<std::uint8_t> bytes(floats.size());
    batch.out = bytes.data();
    batch.dtype = DType::uint8;
    batch.layout = Layout::hwc;
    gather(batch);
    colors({.draws = &batch.draws->output,
            .stride = sizeof(GatherDraw),
            .n = batch.n,
            .size = batch.to,
            .channels = batch.channels,
            .erased_value = batch.ops.erased_value,
            .images = bytes.data()});
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        const std::size_t c = i % channels;
        const std::size_t pixel = i / channels % pixels;
        const std::size_t image = i / channels / pixels;
        const std::size_t at = planes ? (image * channels + c) * pixels + pixel : i;
        const float scaled = static_cast<float>(bytes[i]) * batch.factors.scale[c];
        floats[at] = scaled + batch.factors.bias[c];
    }
    return floats;
}

}  // namespace stoker::testing

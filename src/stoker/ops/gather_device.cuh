// What one thread of gather_cuda.cu computes without a resize. For nvcc, and internal to ops/.
#pragma once

#include "stoker/ops/erasing_device.cuh"
#include "stoker/ops/gather.h"

namespace stoker::gather_device {

constexpr int kOutsideImage = -1;

struct Arguments {
    const std::uint8_t* images;
    const GatherDraw* draws;
    int height;  // of an image
    int width;
    int channels;
    int out_height;
    int out_width;
    int y_stride;  // weights of an output row
    int x_stride;
    bool cubic;  // the resize's filter
    PaddingMode mode;
    std::uint32_t fill;  // one byte a channel
    bool erases;
    ErasedBytes erased;
    float scale[4];
    float bias[4];
};

// As source_of in random_crop.cpp.
__device__ inline int source_of(int position, int length, PaddingMode mode) {
    if (position >= 0 && position < length) {
        return position;
    }
    if (mode == PaddingMode::constant) {
        return kOutsideImage;
    }
    if (mode == PaddingMode::edge || length == 1) {
        return position < 0 ? 0 : length - 1;
    }
    const int repeated = mode == PaddingMode::symmetric ? 1 : 0;
    const int period = 2 * length - 2 + 2 * repeated;
    const int place = ((position % period) + period) % period;
    return place < length ? place : period - repeated - place;
}

__device__ inline int cropped_byte(const Arguments& a, const GatherDraw& draw, const std::uint8_t* image,
                                   const Place& at) {
    const int y = source_of(draw.box.top + at.y, a.height, a.mode);
    const int x = source_of(draw.box.left + at.x, a.width, a.mode);
    if (y == kOutsideImage || x == kOutsideImage) {
        return static_cast<int>(a.fill >> (8 * at.c) & 255u);
    }
    return image[(y * a.width + x) * a.channels + at.c];
}

}  // namespace stoker::gather_device

// An image as float32 planes (C, H, W): images of any type but bytes with up to four channels run through the ops in
// this form.
#pragma once

#include <cstddef>
#include <limits>

#include "stoker/base/buffer.h"
#include "stoker/base/image.h"

namespace stoker {

// One plane: BasicImageView of one channel, whose stride is in floats.
using Plane = BasicImageView<float>;
using ConstPlane = BasicImageView<const float>;

template <typename Float>
struct BasicPlanes {
    Float* data = nullptr;  // channel c, row y at data + c * step + y * stride
    int channels = 0;
    int height = 0;
    int width = 0;
    std::ptrdiff_t stride = 0;  // floats from one row to the next
    std::ptrdiff_t step = 0;    // floats from one plane to the next

    BasicImageView<Float> plane(int c) const { return {data + c * step, height, width, 1, stride}; }
    // The part inside `box`, which must lie within the planes.
    BasicPlanes crop(const Box& box) const {
        return {data + box.top * stride + box.left, channels, box.height, box.width, stride, step};
    }
    // Channel `c` alone.
    BasicPlanes only(int c) const { return {data + c * step, 1, height, width, stride, step}; }
    operator BasicPlanes<const Float>() const { return {data, channels, height, width, stride, step}; }
};

using PlanesView = BasicPlanes<float>;
using ConstPlanesView = BasicPlanes<const float>;

// Owns planes; the memory is reused from one `reset` to the next.
class Planes {
  public:
    PlanesView reset(int channels, int height, int width) {
        const std::ptrdiff_t step = std::ptrdiff_t{height} * width;
        buffer_.resize(static_cast<std::size_t>(channels * step) * sizeof(float));
        return view_ = {reinterpret_cast<float*>(buffer_.data()), channels, height, width, width, step};
    }
    PlanesView view() const { return view_; }

  private:
    Buffer buffer_;
    PlanesView view_;
};

// How the values of planes relate to those of the image: `top` is 1 for a model, as in torchvision's to_dtype(float32,
// scale=True), and `low` and `high` limit the type's values.
struct PlaneValues {
    float top = 1;  // 255, 65535, 32767; 1 for floats
    float low = -std::numeric_limits<float>::infinity();
    float high = std::numeric_limits<float>::infinity();
};

}  // namespace stoker

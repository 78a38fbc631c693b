// The resize filter along one axis: which inputs each output reads, and their weights in fixed point. Built once per
// image and axis, so that the loops over pixels only multiply and add.
#pragma once

#include <cstdint>
#include <vector>

#include "stoker/ops/interpolation.h"

namespace stoker {

// The taps of one output position: inputs first ... first + count - 1.
struct ResizeTaps {
    int first = 0;
    int count = 0;
};

// Weights have kResizeBits fraction bits: `taps[i]` are the inputs of output i, `weights[i * stride + k]` is its k-th
// weight. The weights of an output sum to about 1 << kResizeBits. `first` and `first + count` never decrease from one
// output to the next.
inline constexpr int kResizeBits = 22;
struct ResizeAxis {
    int stride = 0;
    std::vector<ResizeTaps> taps;
    std::vector<std::int32_t> weights;

    // Builds outputs begin ... begin + count - 1 of `output`; equal lengths copy. Reuses its memory, and returns at
    // once if the arguments are the same as in the last call.
    void build(int input, int output, int begin, int count, Interpolation interpolation = Interpolation::bilinear);
    // The number of inputs from the first tap to the last.
    int inputs() const { return taps.back().first + taps.back().count - taps.front().first; }

  private:
    int input_ = -1;
    int output_ = -1;
    int begin_ = -1;
    Interpolation interpolation_ = Interpolation::bilinear;
    std::vector<double> heights_;  // one output's weights before they are normalised
};

// The inputs that these outputs read, without building weights.
ResizeTaps resize_reach(int input, int output, int begin, int count, Interpolation interpolation);

// The most taps of an output, for `input` or fewer inputs.
int resize_stride(int input, int output, Interpolation interpolation);

}  // namespace stoker

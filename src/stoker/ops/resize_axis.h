// A resize's filter along one axis: which inputs each output reads, and their weights in fixed point.
// Drawn up once an image and axis; the loops over pixels only multiply and add.
#pragma once

#include <cstdint>
#include <vector>

namespace stoker {

// The taps of one output position: inputs first ... first + count - 1.
struct ResizeTaps {
    int first = 0;
    int count = 0;
};

// The filter along one axis, in fixed point of kResizeBits: `taps[i]` says where output i reads,
// `weights[i * stride + k]` is its k-th weight; each output's weights sum to about 1 << kResizeBits.
// Neither `first` nor `first + count` ever falls from one output to the next.
inline constexpr int kResizeBits = 22;
struct ResizeAxis {
    int stride = 0;
    std::vector<ResizeTaps> taps;
    std::vector<std::int32_t> weights;

    // Outputs begin ... begin + count - 1 of `output`; equal lengths copy. Reuses its memory; does nothing
    // where the arguments are those of last time.
    void build(int input, int output, int begin, int count);
    // Inputs from the first tap of all to the last.
    int inputs() const { return taps.back().first + taps.back().count - taps.front().first; }

  private:
    int input_ = -1;
    int output_ = -1;
    int begin_ = -1;
    std::vector<double> triangle_;  // one output's weights before they are normalised
};

// The inputs under the taps of these outputs, first and count, without building their weights.
ResizeTaps resize_reach(int input, int output, int begin, int count);

}  // namespace stoker

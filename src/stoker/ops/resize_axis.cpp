// The filter's weights. The triangle of half-width `support` around each output's centre, sampled at
// the input centres and normalised in double: Pillow's definition of BILINEAR with antialiasing.
#include <algorithm>
#include <cmath>

#include "stoker/ops/resize.h"

namespace stoker {

void ResizeAxis::build(int input, int output, int begin, int count) {
    if (input == input_ && output == output_ && begin == begin_ && static_cast<std::size_t>(count) == taps.size()) {
        return;
    }
    const double scale = static_cast<double>(input) / output;
    const double support = std::max(scale, 1.0);  // shrinking widens the triangle, growing does not
    const double inverse = 1.0 / support;
    stride = static_cast<int>(std::ceil(support)) * 2 + 1;
    taps.resize(static_cast<std::size_t>(count));
    weights.resize(taps.size() * static_cast<std::size_t>(stride));
    triangle_.resize(static_cast<std::size_t>(stride));
    for (std::size_t i = 0; i < taps.size(); ++i) {
        const double center = (begin + static_cast<double>(i) + 0.5) * scale;
        const int first = std::max(static_cast<int>(center - support + 0.5), 0);
        const int last = std::min(static_cast<int>(center + support + 0.5), input);
        taps[i] = {first, last - first};
        double sum = 0;
        for (int k = 0; k < last - first; ++k) {
            const double distance = std::abs((k + first - center + 0.5) * inverse);
            triangle_[static_cast<std::size_t>(k)] = std::max(1.0 - distance, 0.0);
            sum += triangle_[static_cast<std::size_t>(k)];
        }
        std::int32_t* out = weights.data() + i * static_cast<std::size_t>(stride);
        for (int k = 0; k < last - first; ++k) {
            const double share = triangle_[static_cast<std::size_t>(k)] / sum;
            out[k] = static_cast<std::int32_t>(0.5 + share * (1 << kResizeBits));
        }
    }
    input_ = input;
    output_ = output;
    begin_ = begin;
}

}  // namespace stoker

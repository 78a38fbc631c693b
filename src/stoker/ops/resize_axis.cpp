// The weights: a triangle of half-width `support` around each output's centre, sampled at the input centres and
// normalised in double. This is Pillow's definition of BILINEAR with antialiasing.
#include "stoker/ops/resize_axis.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr std::size_t kMostWeights = std::size_t{1} << 27;  // half a GiB; a longer side is not a picture's

// The scale of an axis and the positions of its triangles.
struct Triangles {
    Triangles(int input_size, int output)
        : input(input_size), scale(static_cast<double>(input_size) / output), support(std::max(scale, 1.0)) {}

    double center(int i) const { return (i + 0.5) * scale; }
    ResizeTaps taps(double at) const {
        const int first = std::max(static_cast<int>(at - support + 0.5), 0);
        return {first, std::min(static_cast<int>(at + support + 0.5), input) - first};
    }

    int input;
    double scale;
    double support;  // only downscaling widens the triangle
};

}  // namespace

void ResizeAxis::build(int input, int output, int begin, int count) {
    if (input == input_ && output == output_ && begin == begin_ && static_cast<std::size_t>(count) == taps.size()) {
        return;
    }
    input_ = -1;  // marks the filter as incomplete in case an allocation throws
    output_ = output;
    begin_ = begin;
    taps.resize(static_cast<std::size_t>(count));
    if (input == output) {
        stride = 1;
        weights.assign(taps.size(), 1 << kResizeBits);
        for (int i = 0; i < count; ++i) {
            taps[static_cast<std::size_t>(i)] = {begin + i, 1};
        }
        input_ = input;
        return;
    }
    const Triangles triangles(input, output);
    const double inverse = 1.0 / triangles.support;
    stride = static_cast<int>(std::ceil(triangles.support)) * 2 + 1;
    if (taps.size() * static_cast<std::size_t>(stride) > kMostWeights) {
        taps.clear();
        throw DataError({}, {.where = "resize",
                             .expected = fmt::format("sides whose filter has at most {} weights", kMostWeights),
                             .got = fmt::format("{} pixels to {}", input, output)});
    }
    weights.resize(taps.size() * static_cast<std::size_t>(stride));
    triangle_.resize(static_cast<std::size_t>(stride));
    for (std::size_t i = 0; i < taps.size(); ++i) {
        const double center = triangles.center(begin + static_cast<int>(i));
        taps[i] = triangles.taps(center);
        const auto [first, length] = taps[i];
        double sum = 0;
        for (int k = 0; k < length; ++k) {
            const double distance = std::abs((k + first - center + 0.5) * inverse);
            triangle_[static_cast<std::size_t>(k)] = std::max(1.0 - distance, 0.0);
            sum += triangle_[static_cast<std::size_t>(k)];
        }
        std::int32_t* out = weights.data() + i * static_cast<std::size_t>(stride);
        for (int k = 0; k < length; ++k) {
            const double share = triangle_[static_cast<std::size_t>(k)] / sum;
            out[k] = static_cast<std::int32_t>(0.5 + share * (1 << kResizeBits));
        }
    }
    input_ = input;
}

ResizeTaps resize_reach(int input, int output, int begin, int count) {
    if (input == output) {
        return {begin, count};
    }
    const Triangles triangles(input, output);
    const ResizeTaps first = triangles.taps(triangles.center(begin));
    const ResizeTaps last = triangles.taps(triangles.center(begin + count - 1));
    return {first.first, last.first + last.count - first.first};
}

}  // namespace stoker

// The weights: a filter around each output's centre, widened when the image shrinks, sampled at the input centres and
// normalised in double. These are Pillow's definitions of NEAREST, BILINEAR, BICUBIC and LANCZOS.
#include "stoker/ops/resize_axis.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numbers>
#include <span>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr std::size_t kMostWeights = std::size_t{1} << 27;  // half a GiB; a longer side is not a picture's

// The filter's half-width in inputs, when the image does not shrink.
int reach_of(Interpolation interpolation) {
    return interpolation == Interpolation::lanczos ? 3 : interpolation == Interpolation::bicubic ? 2 : 1;
}

double triangle(double x) {
    return std::max(1.0 - std::abs(x), 0.0);
}

// Keys' cubic convolution with a = -0.5 (IEEE Trans. ASSP 29, 1981).
double cubic(double x) {
    constexpr double a = -0.5;
    const double d = std::abs(x);
    return d < 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : d < 2 ? (((d - 5) * d + 8) * d - 4) * a : 0.0;
}

double sinc(double x) {
    const double angle = x * std::numbers::pi;
    return x == 0 ? 1.0 : std::sin(angle) / angle;
}

double lanczos(double x) {
    return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0.0;
}

// The scale of an axis and the positions of its filters.
struct Filters {
    Filters(int input_size, int output, Interpolation interpolation)
        : input(input_size),
          scale(static_cast<double>(input_size) / output),
          widening(std::max(scale, 1.0)),
          support(widening * reach_of(interpolation)) {}

    double center(int i) const { return (i + 0.5) * scale; }
    ResizeTaps taps(double at) const {
        const int first = std::max(static_cast<int>(at - support + 0.5), 0);
        return {first, std::min(static_cast<int>(at + support + 0.5), input) - first};
    }

    int input;
    double scale;
    double widening;  // only shrinking widens the filter
    double support;
};

// The input of each output. Pillow adds up the scale from the first output on, which decides ties.
void build_nearest(int input, int output, int begin, std::span<ResizeTaps> taps) {
    const double scale = static_cast<double>(input) / output;
    double center = 0.5 * scale;
    for (int i = 0; i < begin + std::ssize(taps); ++i, center += scale) {
        if (i >= begin) {
            taps[static_cast<std::size_t>(i - begin)] = {std::min(static_cast<int>(center), input - 1), 1};
        }
    }
}

// Rounded half away from 0.
std::int32_t fixed_point(double weight) {
    return static_cast<std::int32_t>((weight < 0 ? -0.5 : 0.5) + weight * (1 << kResizeBits));
}

// The weights of the taps of one output, whose filter is at `center`.
template <typename Height>
void build_weights(const Filters& filters, double center, ResizeTaps taps, Height height, std::vector<double>& heights,
                   std::int32_t* out) {
    const double inverse = 1.0 / filters.widening;
    double sum = 0;
    for (int k = 0; k < taps.count; ++k) {
        heights[static_cast<std::size_t>(k)] = height((k + taps.first - center + 0.5) * inverse);
        sum += heights[static_cast<std::size_t>(k)];
    }
    for (int k = 0; k < taps.count; ++k) {
        out[k] = fixed_point(heights[static_cast<std::size_t>(k)] / sum);
    }
}

}  // namespace

void ResizeAxis::build(int input, int output, int begin, int count, Interpolation interpolation) {
    if (input == input_ && output == output_ && begin == begin_ && static_cast<std::size_t>(count) == taps.size() &&
        interpolation == interpolation_) {
        return;
    }
    input_ = -1;  // marks the filter as incomplete in case an allocation throws
    output_ = output;
    begin_ = begin;
    interpolation_ = interpolation;
    taps.resize(static_cast<std::size_t>(count));
    stride = input == output ? 1 : resize_stride(input, output, interpolation);
    if (stride == 1) {
        weights.assign(taps.size(), 1 << kResizeBits);
        if (input == output) {
            for (int i = 0; i < count; ++i) {
                taps[static_cast<std::size_t>(i)] = {begin + i, 1};
            }
        } else {
            build_nearest(input, output, begin, taps);
        }
        input_ = input;
        return;
    }
    if (taps.size() * static_cast<std::size_t>(stride) > kMostWeights) {
        taps.clear();
        throw DataError({}, {.where = "resize",
                             .expected = fmt::format("sides whose filter has at most {} weights", kMostWeights),
                             .got = fmt::format("{} pixels to {}", input, output)});
    }
    weights.resize(taps.size() * static_cast<std::size_t>(stride));
    heights_.resize(static_cast<std::size_t>(stride));
    const Filters filters(input, output, interpolation);
    for (std::size_t i = 0; i < taps.size(); ++i) {
        const double center = filters.center(begin + static_cast<int>(i));
        taps[i] = filters.taps(center);
        std::int32_t* out = weights.data() + i * static_cast<std::size_t>(stride);
        switch (interpolation) {
            case Interpolation::bicubic:
                build_weights(filters, center, taps[i], cubic, heights_, out);
                break;
            case Interpolation::lanczos:
                build_weights(filters, center, taps[i], lanczos, heights_, out);
                break;
            default:
                build_weights(filters, center, taps[i], triangle, heights_, out);
        }
    }
    input_ = input;
}

ResizeTaps resize_reach(int input, int output, int begin, int count, Interpolation interpolation) {
    if (input == output) {
        return {begin, count};
    }
    if (interpolation == Interpolation::nearest) {
        std::vector<ResizeTaps> taps(static_cast<std::size_t>(count));
        build_nearest(input, output, begin, taps);
        return {taps.front().first, taps.back().first + 1 - taps.front().first};
    }
    const Filters filters(input, output, interpolation);
    const ResizeTaps first = filters.taps(filters.center(begin));
    const ResizeTaps last = filters.taps(filters.center(begin + count - 1));
    return {first.first, last.first + last.count - first.first};
}

int resize_stride(int input, int output, Interpolation interpolation) {
    if (interpolation == Interpolation::nearest) {
        return 1;
    }
    const std::int64_t reach = reach_of(interpolation);
    const std::int64_t support = input > output ? (reach * input + output - 1) / output : reach;  // rounded up
    return static_cast<int>(std::min<std::int64_t>(2 * support + 1, std::numeric_limits<int>::max()));
}

}  // namespace stoker

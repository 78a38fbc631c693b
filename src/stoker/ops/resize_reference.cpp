// The resize's readable twin: for each output value the whole line of inputs is weighed, and nothing
// is kept from one value to the next. The same bits as the fast path.
#include <algorithm>
#include <cmath>

#include "stoker/ops/resize.h"

namespace stoker {
namespace {

// The value at output `i` of `output` along a line of `input` samples.
template <typename Sample>
std::uint8_t filtered(int i, int output, int input, Sample sample) {
    const double scale = static_cast<double>(input) / output;
    const double support = std::max(scale, 1.0);  // half the width of the triangle
    const double center = (i + 0.5) * scale;
    const auto height = [&](int x) { return std::max(0.0, 1.0 - std::abs((x - center + 0.5) * (1.0 / support))); };
    double total = 0;
    for (int x = 0; x < input; ++x) {
        total += height(x);
    }
    constexpr std::int64_t kOne = std::int64_t{1} << kResizeBits;
    std::int64_t sum = kOne / 2;
    for (int x = 0; x < input; ++x) {
        sum += std::llround(height(x) / total * static_cast<double>(kOne)) * sample(x);
    }
    return static_cast<std::uint8_t>(std::min<std::int64_t>(sum / kOne, 255));
}

}  // namespace

void resize_reference(ConstImageView from, ImageView to) {
    const int channels = from.channels;
    Image half(from.height, to.width, channels);
    const ImageView middle = half.view();
    for (int y = 0; y < from.height; ++y) {
        for (int x = 0; x < to.width; ++x) {
            for (int c = 0; c < channels; ++c) {
                middle.row(y)[x * channels + c] =
                    filtered(x, to.width, from.width, [&](int k) { return from.row(y)[k * channels + c]; });
            }
        }
    }
    for (int y = 0; y < to.height; ++y) {
        for (int i = 0; i < to.width * channels; ++i) {
            to.row(y)[i] = filtered(y, to.height, from.height, [&](int k) { return middle.row(k)[i]; });
        }
    }
}

}  // namespace stoker

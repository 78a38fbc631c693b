// The image is copied with reflected columns on both sides; rows beyond the image are rows of the copy. Each row of the
// result needs one pass down and one across.
#include "stoker/ops/gaussian_blur.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>

#include "stoker/base/error.h"
#include "stoker/ops/blur_row.h"

namespace stoker {
namespace {

constexpr int kMaxRadius = kMaxBlurKernel / 2;

// The weights from the middle outwards. Their sum over the whole kernel is 1.
std::span<const float> gaussian(int size, float sigma, std::array<float, kMaxRadius + 1>& weights) {
    const auto count = static_cast<std::size_t>(size / 2 + 1);
    std::array<double, kMaxRadius + 1> values{};
    double sum = 0;
    for (std::size_t k = 0; k < count; ++k) {
        const double distance = static_cast<double>(k) / static_cast<double>(sigma);
        values[k] = std::exp(-0.5 * distance * distance);
        sum += k == 0 ? values[k] : 2 * values[k];
    }
    for (std::size_t k = 0; k < count; ++k) {
        weights[k] = static_cast<float>(values[k] / sum);
    }
    return {weights.data(), count};
}

// The pixel for a position at most length - 1 beyond either end.
int reflected(int position, int length) {
    return position < 0 ? -position : position < length ? position : 2 * (length - 1) - position;
}

void check(ConstImageView image, const BlurParams& params) {
    const auto odd = [](int size) { return size >= 1 && size <= kMaxBlurKernel && size % 2 == 1; };
    if (!odd(params.width) || !odd(params.height) || !(params.sigma > 0) || image.channels < 1 || image.channels > 4) {
        throw InvalidArgument(
            {.where = "gaussian_blur",
             .expected = fmt::format("an odd kernel of 1 to {} pixels, sigma above 0, 1 to 4 channels", kMaxBlurKernel),
             .got = fmt::format("{} x {}, sigma {}, {} channels", params.width, params.height, params.sigma,
                                image.channels)});
    }
    if (image.height <= params.height / 2 || image.width <= params.width / 2) {
        throw DataError(
            {}, {.where = "gaussian_blur",
                 .expected = fmt::format("an image of at least {} x {} for a kernel of {} x {}", params.height / 2 + 1,
                                         params.width / 2 + 1, params.height, params.width),
                 .got = fmt::format("{} x {}", image.height, image.width)});
    }
}

// The image with `radius` reflected pixels on the left and on the right.
void pad_columns(ConstImageView image, int radius, ImageView padded) {
    const auto channels = static_cast<std::size_t>(image.channels);
    for (int y = 0; y < image.height; ++y) {
        const std::uint8_t* from = image.row(y);
        std::uint8_t* to = padded.row(y);
        std::memcpy(to + std::ptrdiff_t{radius} * image.channels, from, image.row_bytes());
        for (int x = 1; x <= radius; ++x) {
            const std::ptrdiff_t end = image.width - 1;
            std::memcpy(to + std::ptrdiff_t{radius - x} * image.channels, from + std::ptrdiff_t{x} * image.channels,
                        channels);
            std::memcpy(to + (radius + end + x) * image.channels, from + (end - x) * image.channels, channels);
        }
    }
}

void blur_plain(const BlurRow& row) {
    blur_loops::blur(row);
}

}  // namespace

const BlurKernel kPlainBlurKernel{"plain", blur_plain};

std::span<const BlurKernel> blur_kernels() {
    static const std::vector<BlurKernel> kernels = [] {
        std::vector<BlurKernel> all{kPlainBlurKernel};
#if defined(__x86_64__)
        const std::vector<BlurKernel> wide = x86_blur_kernels();
        all.insert(all.end(), wide.begin(), wide.end());
#endif
        return all;
    }();
    return kernels;
}

BlurParams draw_gaussian_blur(const GaussianBlur& op, Rng& rng) {
    if (!(op.sigma_low > 0 && op.sigma_low <= op.sigma_high && std::isfinite(op.sigma_high))) {
        throw InvalidArgument({.where = "gaussian_blur",
                               .expected = "0 < low <= high of sigma",
                               .got = fmt::format("{} to {}", op.sigma_low, op.sigma_high)});
    }
    if (op.probability < 1 && !rng.chance(op.probability)) {
        return {.width = 1, .height = 1};
    }
    return {op.width, op.height, rng.uniform(op.sigma_low, op.sigma_high)};
}

void gaussian_blur(ImageView image, const BlurParams& params, Image& scratch) {
    gaussian_blur_with(blur_kernels().back(), image, params, scratch);
}

void gaussian_blur_with(const BlurKernel& kernel, ImageView image, const BlurParams& params, Image& scratch) {
    check(image, params);
    const int radius = params.height / 2;
    scratch.reset(image.height, image.width + 2 * (params.width / 2), image.channels);
    const ImageView padded = scratch.view();
    pad_columns(image, params.width / 2, padded);
    std::array<float, kMaxRadius + 1> down;
    std::array<float, kMaxRadius + 1> across;
    std::array<const std::uint8_t*, kMaxBlurKernel> rows;
    BlurRow row{.rows = rows.data(),
                .down = gaussian(params.height, params.sigma, down),
                .across = gaussian(params.width, params.sigma, across),
                .channels = static_cast<std::size_t>(image.channels),
                .out = nullptr,
                .values = image.row_bytes()};
    for (int y = 0; y < image.height; ++y) {
        for (int k = 0; k < params.height; ++k) {
            rows[static_cast<std::size_t>(k)] = padded.row(reflected(y - radius + k, image.height));
        }
        row.out = image.row(y);
        kernel.run(row);
    }
}

}  // namespace stoker

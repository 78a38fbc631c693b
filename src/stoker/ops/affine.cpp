// For each block of a row, one loop computes the positions (this vectorises), a second loop the pixels.
#include "stoker/ops/affine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr std::size_t kBlock = 256;  // positions per block
constexpr float kFar = 4e6f;         // clamping to it keeps conversions to int defined, and nearest() exact
constexpr int kLongest = 3'000'000;  // so that pixels beyond an image stay beyond it

double radians(double degrees) {
    return degrees * std::numbers::pi / 180.0;
}

// The matrix in float32, scaled so that positions are in units of half the image.
struct Grid {
    float xx, xy, x1, yx, yy, y1;
    float half_width, half_height;
    float left, top;  // the first pixel, relative to the centre

    Grid(const AffineMatrix& m, int height, int width)
        : half_width(0.5f * static_cast<float>(width)),
          half_height(0.5f * static_cast<float>(height)),
          left(0.5f * static_cast<float>(1 - width)),
          top(0.5f * static_cast<float>(1 - height)) {
        xx = static_cast<float>(m[0]) / half_width;
        xy = static_cast<float>(m[1]) / half_width;
        x1 = static_cast<float>(m[2]) / half_width;
        yx = static_cast<float>(m[3]) / half_height;
        yy = static_cast<float>(m[4]) / half_height;
        y1 = static_cast<float>(m[5]) / half_height;
    }
};

// A block of input positions: integer pixels and, for bilinear, fractions in [0, 1).
struct Positions {
    std::int32_t column[kBlock];
    std::int32_t row[kBlock];
    float east[kBlock];
    float south[kBlock];
};

// Rounds to the nearest integer, ties to even, for values up to 2^22: the addition rounds.
inline std::int32_t nearest(float value) {
    constexpr float kShift = 0x1.8p23f;
    return static_cast<std::int32_t>((value + kShift) - kShift);
}

inline std::int32_t floored(float value) {
    const auto whole = static_cast<std::int32_t>(value);
    return whole - (static_cast<float>(whole) > value ? 1 : 0);
}

// Converts a position relative to the centre, in units of half the image, to a pixel index.
inline float to_pixels(float value, float half) {
    return std::min(std::max((value + 1.0f) * half - 0.5f, -kFar), kFar);
}

// Computes the input positions of kBlock output pixels of row `y`, beginning at column `begin`.
template <Interpolation interpolation>
void locate(const Grid& g, int y, int begin, Positions& out) {
    const float row = g.top + static_cast<float>(y);
    const float first = g.left + static_cast<float>(begin);
    for (std::size_t i = 0; i < kBlock; ++i) {
        const float column = first + static_cast<float>(static_cast<std::int32_t>(i));
        const float x = to_pixels(column * g.xx + row * g.xy + g.x1, g.half_width);
        const float down = to_pixels(column * g.yx + row * g.yy + g.y1, g.half_height);
        if constexpr (interpolation == Interpolation::nearest) {
            out.column[i] = nearest(x);
            out.row[i] = nearest(down);
        } else {
            out.column[i] = floored(x);
            out.row[i] = floored(down);
            out.east[i] = x - static_cast<float>(out.column[i]);
            out.south[i] = down - static_cast<float>(out.row[i]);
        }
    }
}

// 0 <= position < length with one comparison.
bool within(std::int32_t position, int length) {
    return static_cast<std::uint32_t>(position) < static_cast<std::uint32_t>(length);
}

template <int channels>
void nearest_pixel(ConstImageView from, const Positions& at, std::size_t i, const Fill& fill, std::uint8_t* out) {
    constexpr Color kBlack{};
    const bool inside = within(at.column[i], from.width) && within(at.row[i], from.height);
    const std::uint8_t* in =
        inside ? from.row(at.row[i]) + std::ptrdiff_t{at.column[i]} * channels : (fill ? fill->data() : kBlack.data());
    std::copy_n(in, channels, out);
}

// Bilinear interpolation; pixels outside of the image count as zero.
template <int channels>
void bilinear_pixel(ConstImageView from, const Positions& at, std::size_t i, const Fill& fill, std::uint8_t* out) {
    constexpr Color kBlack{};
    const float west = 1.0f - at.east[i];
    const float north = 1.0f - at.south[i];
    float weights[4] = {west * north, at.east[i] * north, west * at.south[i], at.east[i] * at.south[i]};
    const std::uint8_t* in[4];
    for (int k = 0; k < 4; ++k) {
        const std::int32_t column = at.column[i] + (k & 1);
        const std::int32_t row = at.row[i] + (k >> 1);
        const bool inside = within(column, from.width) && within(row, from.height);
        in[k] = inside ? from.row(row) + std::ptrdiff_t{column} * channels : kBlack.data();
        weights[k] = inside ? weights[k] : 0.0f;
    }
    const float share =
        weights[0] + weights[1] + weights[2] + weights[3];  // the sum of the weights inside of the image
    for (int c = 0; c < channels; ++c) {
        float value = static_cast<float>(in[0][c]) * weights[0] + static_cast<float>(in[1][c]) * weights[1] +
                      static_cast<float>(in[2][c]) * weights[2] + static_cast<float>(in[3][c]) * weights[3];
        if (fill) {
            const auto color = static_cast<float>((*fill)[static_cast<std::size_t>(c)]);
            value = (value - color) * share + color;
        }
        out[c] = static_cast<std::uint8_t>(std::clamp(nearest(value), 0, 255));
    }
}

template <int channels, Interpolation interpolation>
void run(ConstImageView from, const Grid& grid, const Fill& fill, ImageView to) {
    Positions at;
    for (int y = 0; y < to.height; ++y) {
        for (int begin = 0; begin < to.width; begin += static_cast<int>(kBlock)) {
            locate<interpolation>(grid, y, begin, at);
            const std::size_t count = std::min(kBlock, static_cast<std::size_t>(to.width - begin));
            std::uint8_t* out = to.row(y) + std::ptrdiff_t{begin} * channels;
            for (std::size_t i = 0; i < count; ++i, out += channels) {
                if constexpr (interpolation == Interpolation::nearest) {
                    nearest_pixel<channels>(from, at, i, fill, out);
                } else {
                    bilinear_pixel<channels>(from, at, i, fill, out);
                }
            }
        }
    }
}

template <int channels>
void run_by(ConstImageView from, const Grid& grid, Interpolation interpolation, const Fill& fill, ImageView to) {
    if (interpolation == Interpolation::nearest) {
        run<channels, Interpolation::nearest>(from, grid, fill, to);
    } else {
        run<channels, Interpolation::bilinear>(from, grid, fill, to);
    }
}

// {a, b, c, d} of x' = a x + b y, y' = c x + d y: a rotation after both shears, without scale. The determinant is 1, so
// the inverse only swaps and negates elements.
std::array<double, 4> unit_matrix(const AffineParams& move) {
    const double angle = radians(move.angle);
    const double shear_x = std::tan(radians(move.shear[0]));
    const double shear_y = radians(move.shear[1]);
    const double a = std::cos(angle - shear_y) / std::cos(shear_y);
    const double b = -(a * shear_x + std::sin(angle));
    const double c = std::sin(angle - shear_y) / std::cos(shear_y);
    const double d = std::cos(angle) - c * shear_x;
    return {a, b, c, d};
}

}  // namespace

AffineMatrix forward_matrix(const AffineParams& move) {
    const auto [a, b, c, d] = unit_matrix(move);
    const auto [x, y] = move.center;
    const double s = move.scale;
    return {a * s, b * s, x + move.translate[0] - a * s * x - b * s * y,
            c * s, d * s, y + move.translate[1] - c * s * x - d * s * y};
}

AffineMatrix inverse_matrix(const AffineParams& move) {
    const auto [a, b, c, d] = unit_matrix(move);
    const double s = move.scale;
    const double x = move.center[0] + move.translate[0];
    const double y = move.center[1] + move.translate[1];
    return {d / s,  -b / s, move.center[0] - d / s * x + b / s * y,
            -c / s, a / s,  move.center[1] + c / s * x - a / s * y};
}

void affine(ConstImageView from, const AffineMatrix& inverse, Interpolation interpolation, const Fill& fill,
            ImageView to) {
    if (from.height != to.height || from.width != to.width || from.channels != to.channels || from.height < 1 ||
        from.width < 1 || from.channels < 1 || from.channels > 4 ||
        !std::all_of(inverse.begin(), inverse.end(), [](double value) { return std::isfinite(value); })) {
        throw InvalidArgument({.where = "affine",
                               .expected = "two images of one shape with 1 to 4 channels and a finite matrix",
                               .got = fmt::format("({}, {}, {}) to ({}, {}, {})", from.height, from.width,
                                                  from.channels, to.height, to.width, to.channels)});
    }
    if (std::max(from.height, from.width) > kLongest) {
        throw DataError({}, {.where = "affine",
                             .expected = fmt::format("an image of at most {} pixels a side", kLongest),
                             .got = fmt::format("{} x {}", from.height, from.width)});
    }
    const Grid grid(inverse, from.height, from.width);
    switch (from.channels) {
        case 1:
            return run_by<1>(from, grid, interpolation, fill, to);
        case 2:
            return run_by<2>(from, grid, interpolation, fill, to);
        case 3:
            return run_by<3>(from, grid, interpolation, fill, to);
        default:
            return run_by<4>(from, grid, interpolation, fill, to);
    }
}

void affine(ImageView image, const AffineParams& move, Interpolation interpolation, const Fill& fill, Image& scratch) {
    scratch.reset(image.height, image.width, image.channels);
    copy_pixels(image, scratch.view());
    affine(scratch.view(), inverse_matrix(move), interpolation, fill, image);
}

}  // namespace stoker

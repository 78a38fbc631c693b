// Moves an image's pixels by positions of float32: affine.cpp, perspective.cpp and elastic.cpp have a grid each, which
// maps output to input positions. For each block of a row, one loop computes the positions (this vectorises), a second
// loop the pixels.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "stoker/base/error.h"
#include "stoker/base/image.h"
#include "stoker/base/planes.h"
#include "stoker/ops/affine.h"
#include "stoker/ops/plane_ops.h"

namespace stoker::warping {

inline constexpr std::size_t kBlock = 256;  // positions per block
inline constexpr float kFar = 4e6f;         // clamping to it keeps conversions to int defined, and nearest() exact
inline constexpr int kLongest = 3'000'000;  // so that pixels beyond an image stay beyond it

// Half an image, and the place of its first pixel, from the centre unless a derived grid sets it. Derived grids have
// position(column, row): the input position of an output one, from the centre in units of half the image.
struct CentredGrid {
    float half_width, half_height;
    float left, top;

    CentredGrid(int height, int width)
        : half_width(0.5f * static_cast<float>(width)),
          half_height(0.5f * static_cast<float>(height)),
          left(0.5f * static_cast<float>(1 - width)),
          top(0.5f * static_cast<float>(1 - height)) {}
};

struct Position {
    float x, y;
};

// A block of input positions: integer pixels and, unless the nearest is taken, fractions in [0, 1).
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
    return std::min(std::max(-kFar, (value + 1.0f) * half - 0.5f), kFar);  // -kFar for NaN
}

// Computes the input positions of kBlock output pixels of row `y`, beginning at column `begin`.
template <Interpolation interpolation, typename Grid>
void locate(const Grid& grid, int y, int begin, Positions& out) {
    const float row = grid.top + static_cast<float>(y);
    const float first = grid.left + static_cast<float>(begin);
    for (std::size_t i = 0; i < kBlock; ++i) {
        const float column = first + static_cast<float>(static_cast<std::int32_t>(i));
        const auto [relative_x, relative_y] = grid.position(column, row);
        const float x = to_pixels(relative_x, grid.half_width);
        const float down = to_pixels(relative_y, grid.half_height);
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
inline bool within(std::int32_t position, int length) {
    return static_cast<std::uint32_t>(position) < static_cast<std::uint32_t>(length);
}

// A pixel of a view of T, and the colour outside of the image; empty: zeros. Floats have one channel, a plane's.
template <typename T>
using PixelColor = std::array<T, 4>;
template <typename T>
using PixelFill = std::optional<PixelColor<T>>;

template <typename T>
T rounded(float value) {
    if constexpr (std::is_same_v<T, float>) {
        return value;
    } else {
        return static_cast<T>(std::clamp(nearest(value), 0, 255));
    }
}

template <int channels, typename T>
void nearest_pixel(BasicImageView<const T> from, const Positions& at, std::size_t i, const PixelFill<T>& fill, T* out) {
    constexpr PixelColor<T> kBlack{};
    const bool inside = within(at.column[i], from.width) && within(at.row[i], from.height);
    const T* in =
        inside ? from.row(at.row[i]) + std::ptrdiff_t{at.column[i]} * channels : (fill ? fill->data() : kBlack.data());
    std::copy_n(in, channels, out);
}

// Bilinear interpolation; pixels outside of the image count as zero.
template <int channels, typename T>
void bilinear_pixel(BasicImageView<const T> from, const Positions& at, std::size_t i, const PixelFill<T>& fill,
                    T* out) {
    constexpr PixelColor<T> kBlack{};
    const float west = 1.0f - at.east[i];
    const float north = 1.0f - at.south[i];
    float weights[4] = {west * north, at.east[i] * north, west * at.south[i], at.east[i] * at.south[i]};
    const T* in[4];
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
        out[c] = rounded<T>(value);
    }
}

// Pillow's: a cubic with a = -1 over the 4 x 4 pixels around the position, repeated beyond the image's edges; of bytes
// cut to whole levels. Positions outside of the image have the colour.
template <int channels, typename T>
void bicubic_pixel(BasicImageView<const T> from, const Positions& at, std::size_t i, const PixelFill<T>& fill, T* out) {
    constexpr PixelColor<T> kBlack{};
    const float x = static_cast<float>(at.column[i]) + at.east[i];
    const float y = static_cast<float>(at.row[i]) + at.south[i];
    if (!(x >= -0.5f && x < static_cast<float>(from.width) - 0.5f && y >= -0.5f &&
          y < static_cast<float>(from.height) - 0.5f)) {
        std::copy_n(fill ? fill->data() : kBlack.data(), channels, out);
        return;
    }
    const auto cubic = [](const std::array<float, 4>& v, float d) {
        return v[1] + d * (v[2] - v[0] + d * (2 * (v[0] - v[1]) + v[2] - v[3] + d * (v[1] - v[0] + v[3] - v[2])));
    };
    for (int c = 0; c < channels; ++c) {
        std::array<float, 4> rows;
        for (int k = 0; k < 4; ++k) {
            const T* row = from.row(std::clamp(at.row[i] + k - 1, 0, from.height - 1));
            std::array<float, 4> values;
            for (int j = 0; j < 4; ++j) {
                const int column = std::clamp(at.column[i] + j - 1, 0, from.width - 1);
                values[static_cast<std::size_t>(j)] = static_cast<float>(row[column * channels + c]);
            }
            rows[static_cast<std::size_t>(k)] = cubic(values, at.east[i]);
        }
        const float value = cubic(rows, at.south[i]);
        if constexpr (std::is_same_v<T, float>) {
            out[c] = value;
        } else {
            out[c] = static_cast<T>(std::clamp(value, 0.0f, 255.0f));
        }
    }
}

template <int channels, Interpolation interpolation, typename T, typename Grid>
void run(BasicImageView<const T> from, const Grid& grid, const PixelFill<T>& fill, BasicImageView<T> to) {
    Positions at;
    for (int y = 0; y < to.height; ++y) {
        for (int begin = 0; begin < to.width; begin += static_cast<int>(kBlock)) {
            locate<interpolation>(grid, y, begin, at);
            const std::size_t count = std::min(kBlock, static_cast<std::size_t>(to.width - begin));
            T* out = to.row(y) + std::ptrdiff_t{begin} * channels;
            for (std::size_t i = 0; i < count; ++i, out += channels) {
                if constexpr (interpolation == Interpolation::nearest) {
                    nearest_pixel<channels>(from, at, i, fill, out);
                } else if constexpr (interpolation == Interpolation::bicubic) {
                    bicubic_pixel<channels>(from, at, i, fill, out);
                } else {
                    bilinear_pixel<channels>(from, at, i, fill, out);
                }
            }
        }
    }
}

template <int channels, typename T, typename Grid>
void run_by(BasicImageView<const T> from, const Grid& grid, Interpolation interpolation, const PixelFill<T>& fill,
            BasicImageView<T> to) {
    if (interpolation == Interpolation::nearest) {
        run<channels, Interpolation::nearest>(from, grid, fill, to);
    } else if (interpolation == Interpolation::bicubic) {
        run<channels, Interpolation::bicubic>(from, grid, fill, to);
    } else {
        run<channels, Interpolation::bilinear>(from, grid, fill, to);
    }
}

// Throws InvalidArgument if the shapes differ or the numbers are not finite, DataError for an enormous image.
inline void check(const char* op, ConstImageView from, ImageView to, bool finite) {
    if (from.height != to.height || from.width != to.width || from.channels != to.channels || from.height < 1 ||
        from.width < 1 || from.channels < 1 || from.channels > 4 || !finite) {
        throw InvalidArgument({.where = op,
                               .expected = "two images of one shape with 1 to 4 channels and a finite matrix",
                               .got = fmt::format("({}, {}, {}) to ({}, {}, {})", from.height, from.width,
                                                  from.channels, to.height, to.width, to.channels)});
    }
    if (std::max(from.height, from.width) > kLongest) {
        throw DataError({}, {.where = op,
                             .expected = fmt::format("an image of at most {} pixels a side", kLongest),
                             .got = fmt::format("{} x {}", from.height, from.width)});
    }
}

template <typename Grid>
void warp(ConstImageView from, const Grid& grid, Interpolation interpolation, const Fill& fill, ImageView to) {
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

// The same of planes, in place; `copy` holds a copy of the original. Throws as `check`.
template <typename Grid>
void warp_planes(const char* op, PlanesView image, const Grid& grid, Interpolation interpolation, const Fill& fill,
                 const PlaneValues& values, Planes& copy) {
    const PlanesView from = copy.reset(image.channels, image.height, image.width);
    for (int c = 0; c < image.channels; ++c) {
        const Plane to = image.plane(c);
        const ConstPlane plane = from.plane(c);
        check(op, {nullptr, plane.height, plane.width, 1, 0}, {nullptr, to.height, to.width, 1, 0}, true);
        for (int y = 0; y < to.height; ++y) {
            std::copy_n(to.row(y), to.width, from.plane(c).row(y));
        }
        PixelFill<float> color;
        if (fill) {
            color = {plane_color(*fill, c, values)};
        }
        run_by<1, float>(plane, grid, interpolation, color, to);
    }
}

}  // namespace stoker::warping

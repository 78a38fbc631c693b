// Draws in torchvision's order: the corners clockwise from the top left one, x before y.
#include "stoker/ops/perspective.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "stoker/ops/warp.h"

namespace stoker {
namespace {

constexpr std::size_t kUnknown = 8;
using System = std::array<std::array<double, kUnknown + 1>, kUnknown>;  // the last column is the right side

// Gaussian elimination with partial pivots; false for a singular system.
bool solve(System& rows) {
    for (std::size_t k = 0; k < kUnknown; ++k) {
        const auto pivot =
            std::max_element(rows.begin() + static_cast<std::ptrdiff_t>(k), rows.end(),
                             [k](const auto& one, const auto& other) { return std::abs(one[k]) < std::abs(other[k]); });
        if (std::abs((*pivot)[k]) < 1e-12) {
            return false;
        }
        std::swap(rows[k], *pivot);
        for (std::size_t r = 0; r < kUnknown; ++r) {
            const double factor = r == k ? 0 : rows[r][k] / rows[k][k];
            for (std::size_t c = k; c <= kUnknown; ++c) {
                rows[r][c] -= factor * rows[k][c];
            }
        }
    }
    for (std::size_t k = 0; k < kUnknown; ++k) {
        rows[k][kUnknown] /= rows[k][k];
    }
    return true;
}

// The coefficients in float32; those of the numerators scaled so that positions are in units of half the image.
struct Grid : warping::CentredGrid {
    std::array<float, 8> m{};

    Grid(const std::array<double, 8>& coefficients, int height, int width) : CentredGrid(height, width) {
        for (std::size_t i = 0; i < m.size(); ++i) {
            const float unit = i < 3 ? half_width : i < 6 ? half_height : 1.0f;
            m[i] = static_cast<float>(coefficients[i]) / unit;
        }
        left = 0.5f;  // positions are from the image's corner
        top = 0.5f;
    }

    warping::Position position(float column, float row) const {
        const float depth = column * m[6] + row * m[7] + 1.0f;
        return {(column * m[0] + row * m[1] + m[2]) / depth - 1.0f, (column * m[3] + row * m[4] + m[5]) / depth - 1.0f};
    }
};

}  // namespace

Corners corners_of(ImageSize image) {
    const double right = image.width - 1;
    const double bottom = image.height - 1;
    return {{{0, 0}, {right, 0}, {right, bottom}, {0, bottom}}};
}

Corners draw_random_perspective(const RandomPerspective& op, ImageSize image, Rng& rng) {
    if (!(op.distortion >= 0 && op.distortion <= 1)) {
        throw InvalidArgument({.where = "random_perspective",
                               .expected = "a distortion from 0 to 1",
                               .got = fmt::format("{}", op.distortion)});
    }
    Corners corners = corners_of(image);
    if (!rng.chance(op.probability)) {
        return corners;
    }
    const auto bound = [&](int length) {
        return static_cast<std::uint32_t>(op.distortion * static_cast<float>(length / 2)) + 1;
    };
    const std::array<std::uint32_t, 2> most = {bound(image.width), bound(image.height)};
    constexpr std::array<std::array<bool, 2>, 4> kFar = {{{false, false}, {true, false}, {true, true}, {false, true}}};
    for (std::size_t corner = 0; corner < corners.size(); ++corner) {
        for (std::size_t axis = 0; axis < 2; ++axis) {
            const double shift = rng.below(most[axis]);
            const int length = axis == 0 ? image.width : image.height;
            corners[corner][axis] = kFar[corner][axis] ? length - static_cast<double>(most[axis]) + shift : shift;
        }
    }
    return corners;
}

std::array<double, 8> perspective_coefficients(ImageSize image, const Corners& to) {
    const Corners from = corners_of(image);
    System rows{};
    for (std::size_t i = 0; i < to.size(); ++i) {
        const auto [x, y] = to[i];
        const auto [u, v] = from[i];
        rows[2 * i] = {x, y, 1, 0, 0, 0, -u * x, -u * y, u};
        rows[2 * i + 1] = {0, 0, 0, x, y, 1, -v * x, -v * y, v};
    }
    if (!solve(rows)) {
        return {1, 0, 0, 0, 1, 0, 0, 0};
    }
    std::array<double, 8> found{};
    std::ranges::transform(rows, found.begin(), [](const auto& row) { return row[kUnknown]; });
    return found;
}

void perspective(ImageView image, const Corners& to, Interpolation interpolation, const Fill& fill, Image& scratch) {
    const ImageSize size{image.height, image.width};
    if (to == corners_of(size)) {
        return;
    }
    const std::array<double, 8> coefficients = perspective_coefficients(size, to);
    const bool finite = std::ranges::all_of(coefficients, [](double value) { return std::isfinite(value); });
    scratch.reset(image.height, image.width, image.channels);
    copy_pixels(image, scratch.view());
    warping::check("perspective", scratch.view(), image, finite);
    warping::warp(scratch.view(), Grid(coefficients, image.height, image.width), interpolation, fill, image);
}

void perspective_planes(PlanesView image, const Corners& to, Interpolation interpolation, const Color& fill,
                        const PlaneValues& values, Planes& copy) {
    const ImageSize size{image.height, image.width};
    if (to != corners_of(size)) {
        warping::warp_planes("perspective", image, Grid(perspective_coefficients(size, to), size.height, size.width),
                             interpolation, fill, values, copy);
    }
}

}  // namespace stoker

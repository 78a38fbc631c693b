#include "stoker/ops/affine.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "stoker/ops/warp.h"

namespace stoker {
namespace {

double radians(double degrees) {
    return degrees * std::numbers::pi / 180.0;
}

// The matrix in float32, scaled so that positions are in units of half the image.
struct Grid : warping::CentredGrid {
    float xx, xy, x1, yx, yy, y1;

    Grid(const AffineMatrix& m, int height, int width) : CentredGrid(height, width) {
        xx = static_cast<float>(m[0]) / half_width;
        xy = static_cast<float>(m[1]) / half_width;
        x1 = static_cast<float>(m[2]) / half_width;
        yx = static_cast<float>(m[3]) / half_height;
        yy = static_cast<float>(m[4]) / half_height;
        y1 = static_cast<float>(m[5]) / half_height;
    }

    warping::Position position(float column, float row) const {
        return {column * xx + row * xy + x1, column * yx + row * yy + y1};
    }
};

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
    warping::check("affine", from, to, std::ranges::all_of(inverse, [](double value) { return std::isfinite(value); }));
    warping::warp(from, Grid(inverse, from.height, from.width), interpolation, fill, to);
}

void affine(ImageView image, const AffineParams& move, Interpolation interpolation, const Fill& fill, Image& scratch) {
    scratch.reset(image.height, image.width, image.channels);
    copy_pixels(image, scratch.view());
    affine(scratch.view(), inverse_matrix(move), interpolation, fill, image);
}

void affine_planes(PlanesView image, const AffineParams& move, Interpolation interpolation, const Fill& fill,
                   const PlaneValues& values, Planes& copy) {
    warping::warp_planes("affine", image, Grid(inverse_matrix(move), image.height, image.width), interpolation, fill,
                         values, copy);
}

}  // namespace stoker

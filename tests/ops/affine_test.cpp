// Rotation and shear compared with torchvision's pixels; right angles and whole-pixel shifts compared with copies.
#include "stoker/ops/affine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/golden.h"
#include "ops/pixels.h"
#include "ops/support.h"
#include "stoker/base/error.h"
#include "stoker/ops/rotation.h"

namespace stoker {
namespace {

using testing::copy_of;
using testing::difference;
using testing::pattern;

constexpr Fill kFill{Color{9, 99, 199, 0}};
constexpr Interpolation kBoth[] = {Interpolation::nearest, Interpolation::bilinear};

Image rotated(const Image& image, double degrees, Interpolation interpolation, const Fill& fill) {
    Image scratch;
    Image copy = copy_of(image);
    rotate(copy.view(), degrees, interpolation, fill, scratch);
    return copy;
}

Image moved(const Image& image, const AffineParams& move, Interpolation interpolation, const Fill& fill) {
    Image out(image.height(), image.width(), image.channels());
    affine(image.view(), inverse_matrix(move), interpolation, fill, out.view());
    return out;
}

// Rotates counter-clockwise by 90 degrees.
Image turned(const Image& image) {
    Image out(image.width(), image.height(), image.channels());
    const int channels = image.channels();
    for (int y = 0; y < out.height(); ++y) {
        for (int x = 0; x < out.width(); ++x) {
            std::memcpy(out.view().row(y) + x * channels, image.view().row(x) + (image.width() - 1 - y) * channels,
                        static_cast<std::size_t>(channels));
        }
    }
    return out;
}

TEST(Rotation, IsTorchvisions) {
    const Image image = pattern(6, 7, 3);
    EXPECT_EQ(difference(rotated(image, 33, Interpolation::nearest, kFill), testing::kRotate), 0);
    EXPECT_LE(difference(rotated(image, 33, Interpolation::bilinear, kFill), testing::kRotateBilinear), 1);
}

TEST(Affine, BicubicIsPillows) {
    const Image image = pattern(6, 7, 3);
    Image out(6, 7, 3);
    const AffineMatrix inverse{1, 0.3, 0.3 * 6 / 2, 0, 1, 0};  // sheared about the top left corner
    affine(image.view(), inverse, Interpolation::bicubic, {}, out.view());
    EXPECT_LE(difference(out, testing::kShearBicubic), 1);
}

TEST(Rotation, RightAnglesAreCopies) {
    for (int channels = 1; channels <= 4; ++channels) {
        for (const int side : {1, 2, 31, 300}) {
            const Image image = testing::noise(side, side, channels);
            for (const Interpolation interpolation : kBoth) {
                Image wanted = copy_of(image);
                for (const double degrees : {90.0, 180.0, 270.0, 360.0}) {
                    wanted = turned(wanted);
                    EXPECT_EQ(difference(rotated(image, degrees, interpolation, kFill), wanted), 0) << degrees;
                    EXPECT_EQ(difference(rotated(image, degrees - 720, interpolation, {}), wanted), 0) << degrees;
                }
            }
        }
    }
}

TEST(Affine, ShearIsTorchvisions) {
    const Image image = pattern(6, 7, 3);
    const AffineParams move{.shear = {25, 0}, .center = {-3.5, -3}};
    EXPECT_LE(difference(moved(image, move, Interpolation::bilinear, {}), testing::kShear), 1);
}

TEST(Affine, WholeShiftsAreCopies) {
    const Image image = testing::noise(40, 290, 3);
    for (const Interpolation interpolation : kBoth) {
        for (const int x : {-300, -7, 0, 5}) {
            for (const int y : {-3, 0, 39}) {
                Image wanted(40, 290, 3);
                for (int row = 0; row < 40; ++row) {
                    for (int column = 0; column < 290; ++column) {
                        const int from_row = row - y;
                        const int from = column - x;
                        const bool inside = from_row >= 0 && from_row < 40 && from >= 0 && from < 290;
                        std::memcpy(wanted.view().row(row) + 3 * column,
                                    inside ? image.view().row(from_row) + 3 * from : kFill->data(), 3);
                    }
                }
                const AffineParams move{.translate = {static_cast<double>(x), static_cast<double>(y)}};
                EXPECT_EQ(difference(moved(image, move, interpolation, kFill), wanted), 0) << x << " " << y;
            }
        }
    }
}

TEST(Affine, BilinearIsTheWeightedMean) {
    const Image image = testing::noise(9, 11, 3);
    const Image out = moved(image, {.translate = {0.25, 0.5}}, Interpolation::bilinear, {});
    const auto at = [&](int y, int x, int c) { return static_cast<double>(image.view().row(y)[3 * x + c]); };
    for (int y = 1; y < 9; ++y) {
        for (int x = 1; x < 11; ++x) {
            for (int c = 0; c < 3; ++c) {
                const double wanted =
                    0.125 * (at(y - 1, x - 1, c) + at(y, x - 1, c)) + 0.375 * (at(y - 1, x, c) + at(y, x, c));
                EXPECT_NEAR(out.view().row(y)[3 * x + c], wanted, 0.501);
            }
        }
    }
}

TEST(Affine, RefusesNonsense) {
    const Image image = testing::noise(4, 4, 3);
    Image small(4, 3, 3);
    Image same(4, 4, 3);
    const AffineMatrix identity = inverse_matrix({});
    EXPECT_THROW(affine(image.view(), identity, Interpolation::nearest, {}, small.view()), InvalidArgument);
    AffineMatrix broken = identity;
    broken[2] = std::numeric_limits<double>::infinity();
    EXPECT_THROW(affine(image.view(), broken, Interpolation::nearest, {}, same.view()), InvalidArgument);
    AffineMatrix far = identity;
    far[2] = 1e300;  // beyond float: all positions are outside of the image
    affine(image.view(), far, Interpolation::bilinear, kFill, same.view());
    EXPECT_EQ(same.view().data[1], 99);
}

TEST(Affine, LongSides) {
    constexpr int kWidth = 1'200'000;
    Image image(1, kWidth, 1);
    for (int x = 0; x < kWidth; ++x) {
        image.view().row(0)[x] = static_cast<std::uint8_t>(x % 251);
    }
    Image same(1, kWidth, 1);
    affine(image.view(), inverse_matrix({}), Interpolation::nearest, {}, same.view());
    EXPECT_EQ(same.view().row(0)[kWidth - 7], (kWidth - 7) % 251);
    const Image longer(1, 3'000'001, 1);
    Image other(1, 3'000'001, 1);
    EXPECT_THROW(affine(longer.view(), inverse_matrix({}), Interpolation::nearest, {}, other.view()), DataError);
}

TEST(Rotation, DrawsTheWholeRange) {
    float least = 99;
    float most = -99;
    for (std::uint64_t sample = 0; sample < 2000; ++sample) {
        Rng rng({.seed = 2, .sample = sample});
        const float angle = draw_random_rotation({.low = -30, .high = 10}, rng);
        least = std::min(least, angle);
        most = std::max(most, angle);
    }
    EXPECT_NEAR(least, -30, 0.2);
    EXPECT_NEAR(most, 10, 0.2);
    Rng rng({});
    EXPECT_THROW(draw_random_rotation({.low = 1, .high = 0}, rng), InvalidArgument);
    EXPECT_THROW(draw_random_rotation({.low = 1, .high = std::numeric_limits<float>::infinity()}, rng),
                 InvalidArgument);
}

}  // namespace
}  // namespace stoker

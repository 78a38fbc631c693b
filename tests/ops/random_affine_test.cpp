// The draws of RandomAffine, and its pixels against torchvision's.
#include "stoker/ops/random_affine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ops/golden.h"
#include "ops/pixels.h"
#include "stoker/base/error.h"

namespace stoker::random_affine_test {
namespace {

constexpr ImageSize kImage{.height = 60, .width = 80};

AffineParams drawn(const RandomAffine& op, std::uint64_t sample = 0) {
    Rng rng({.seed = 8, .sample = sample});
    return draw_random_affine(op, kImage, rng);
}

TEST(RandomAffine, PixelsAreTorchvisions) {
    Image image = testing::pattern(6, 7, 3);
    Image scratch;
    const AffineParams move{.angle = 17.3, .translate = {1, -2}, .scale = 0.83, .shear = {11, -7}};
    affine(image.view(), move, Interpolation::bilinear, Color{9, 99, 199, 0}, scratch);
    EXPECT_LE(testing::difference(image, testing::kMoved), 1);
}

TEST(RandomAffine, RangesOfOneValueAreThatValue) {
    const AffineParams params = drawn({.degrees = {17.25f, 17.25f}, .scale = {0.5f, 0.5f}, .shear_x = {3, 3}});
    EXPECT_EQ(params.angle, 17.25);
    EXPECT_EQ(params.scale, 0.5);
    EXPECT_EQ(params.shear[0], 3);
    EXPECT_EQ(params.shear[1], 0);
    EXPECT_EQ(params.translate[0], 0);
}

TEST(RandomAffine, DrawsAllWholeShiftsAndTheWholeRanges) {
    const RandomAffine op{.degrees = {-30, 10}, .translate = {0.05f, 0.1f}, .scale = {0.5f, 2}, .shear_y = {-4, 9}};
    std::set<double> shifts[2];
    std::set<double> angles;
    std::set<double> scales;
    std::set<double> shears;
    for (std::uint64_t sample = 0; sample < 2000; ++sample) {
        const AffineParams params = drawn(op, sample);
        shifts[0].insert(params.translate[0]);
        shifts[1].insert(params.translate[1]);
        angles.insert(params.angle);
        scales.insert(params.scale);
        shears.insert(params.shear[1]);
    }
    EXPECT_EQ(shifts[0].size(), 9u);   // -4 to 4: a twentieth of 80
    EXPECT_EQ(shifts[1].size(), 13u);  // -6 to 6: a tenth of 60
    EXPECT_EQ(*shifts[1].begin(), -6);
    EXPECT_NEAR(*angles.begin(), -30, 0.2);
    EXPECT_NEAR(*angles.rbegin(), 10, 0.2);
    EXPECT_NEAR(*scales.begin(), 0.5, 0.02);
    EXPECT_NEAR(*scales.rbegin(), 2, 0.02);
    EXPECT_NEAR(*shears.begin(), -4, 0.1);
    EXPECT_NEAR(*shears.rbegin(), 9, 0.1);
}

TEST(RandomAffine, OneRangeDoesNotChangeTheDrawsOfTheOthers) {
    const AffineParams plain = drawn({.degrees = {-30, 30}, .shear_y = {-5, 5}});
    const AffineParams more =
        drawn({.degrees = {-30, 30}, .translate = {1, 1}, .scale = {0.5f, 2}, .shear_y = {-5, 5}});
    EXPECT_EQ(plain.angle, more.angle);
    EXPECT_EQ(plain.shear[1], more.shear[1]);
}

TEST(RandomAffine, ForwardAndInverseMatricesCancel) {
    const AffineParams move{.angle = 40, .translate = {7, -2}, .scale = 1.7, .shear = {12, -8}, .center = {3, 5}};
    const AffineMatrix there = forward_matrix(move);
    const AffineMatrix back = inverse_matrix(move);
    const double x = there[0] * 11 + there[1] * -6 + there[2];
    const double y = there[3] * 11 + there[4] * -6 + there[5];
    EXPECT_NEAR(back[0] * x + back[1] * y + back[2], 11, 1e-12);
    EXPECT_NEAR(back[3] * x + back[4] * y + back[5], -6, 1e-12);
}

TEST(RandomAffine, RefusesImpossibleRanges) {
    EXPECT_THROW(drawn({.degrees = {1, 0}}), InvalidArgument);
    EXPECT_THROW(drawn({.translate = {1.5f, 0}}), InvalidArgument);
    EXPECT_THROW(drawn({.scale = {0, 1}}), InvalidArgument);
    EXPECT_THROW(drawn({.shear_x = {-90, 0}}), InvalidArgument);
}

}  // namespace
}  // namespace stoker::random_affine_test

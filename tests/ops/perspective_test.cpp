// Perspective transforms compared with torchvision's pixels; the drawn corners, and corners that span no area.
#include "stoker/ops/perspective.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/golden.h"
#include "ops/pixels.h"
#include "ops/support.h"
#include "stoker/base/error.h"

namespace stoker {
namespace {

using testing::copy_of;
using testing::difference;
using testing::pattern;

Image moved(const Image& image, const Corners& to, Interpolation interpolation, const Fill& fill) {
    Image scratch;
    Image copy = copy_of(image);
    perspective(copy.view(), to, interpolation, fill, scratch);
    return copy;
}

TEST(Perspective, IsTorchvisions) {
    const Corners to{{{1, 0}, {5, 1}, {6, 5}, {0, 4}}};
    const Fill fill{Color{9, 99, 199, 0}};
    EXPECT_LE(difference(moved(pattern(6, 7, 3), to, Interpolation::bilinear, fill), testing::kPerspective), 1);
}

TEST(Perspective, CornersGoWhereTheyAreSent) {
    const ImageSize size{.height = 40, .width = 60};
    const Corners to{{{3, 2}, {50, 5}, {58, 33}, {7, 39}}};
    const auto m = perspective_coefficients(size, to);
    const Corners from = corners_of(size);
    for (std::size_t i = 0; i < to.size(); ++i) {
        const auto [x, y] = to[i];
        const double depth = m[6] * x + m[7] * y + 1;
        EXPECT_NEAR((m[0] * x + m[1] * y + m[2]) / depth, from[i][0], 1e-9);
        EXPECT_NEAR((m[3] * x + m[4] * y + m[5]) / depth, from[i][1], 1e-9);
    }
}

TEST(Perspective, CornersWithoutAnAreaChangeNothing) {
    const Image image = testing::noise(1, 1, 3);
    const Corners point{{{0, 0}, {0, 0}, {0, 0}, {0, 0}}};
    EXPECT_EQ(difference(moved(image, point, Interpolation::bilinear, {}), image), 0);
    const Image wide = testing::noise(5, 8, 3);
    EXPECT_EQ(difference(moved(wide, {{{1, 1}, {1, 1}, {1, 1}, {1, 1}}}, Interpolation::nearest, {}), wide), 0);
    EXPECT_EQ(difference(moved(wide, corners_of({5, 8}), Interpolation::bilinear, {}), wide), 0);
}

TEST(RandomPerspective, DrawsCornersWithinTheDistortion) {
    constexpr ImageSize kSize{.height = 41, .width = 60};
    constexpr RandomPerspective kOp{.distortion = 0.5f, .probability = 0.75f};
    int applied = 0;
    std::array<double, 2> most{};
    for (std::uint64_t sample = 0; sample < 4000; ++sample) {
        Rng rng({.seed = 3, .sample = sample});
        const Corners drawn = draw_random_perspective(kOp, kSize, rng);
        const Corners whole = corners_of(kSize);
        applied += drawn != whole ? 1 : 0;
        for (std::size_t i = 0; i < drawn.size(); ++i) {
            for (std::size_t axis = 0; axis < 2; ++axis) {
                most[axis] = std::max(most[axis], std::abs(drawn[i][axis] - whole[i][axis]));
                ASSERT_TRUE(drawn[i][axis] >= 0 && drawn[i][axis] <= whole[2][axis]);
            }
        }
    }
    EXPECT_NEAR(applied, 3000, 170);
    EXPECT_EQ(most[0], 15);  // int(0.5 * 30)
    EXPECT_EQ(most[1], 10);  // int(0.5 * 20)
    Rng rng({});
    EXPECT_THROW(draw_random_perspective({.distortion = 1.5f}, kSize, rng), InvalidArgument);
}

}  // namespace
}  // namespace stoker

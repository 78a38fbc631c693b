// Elastic transforms compared with torchvision's pixels; the random field compared with a plain convolution.
#include "stoker/ops/elastic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "ops/golden.h"
#include "ops/pixels.h"
#include "ops/support.h"
#include "stoker/base/error.h"

namespace stoker {
namespace {

using testing::copy_of;
using testing::difference;

TEST(Elastic, IsTorchvisions) {
    Displacement by;
    for (int y = 0; y < 6; ++y) {
        for (int x = 0; x < 7; ++x) {
            by.x.push_back(static_cast<float>((3 * x + y) % 5) * 0.125f - 0.25f);
            by.y.push_back(static_cast<float>((x + 2 * y) % 3) * 0.25f - 0.25f);
        }
    }
    Image image = testing::pattern(6, 7, 3);
    Image scratch;
    elastic(image.view(), by, Interpolation::bilinear, {Color{9, 99, 199, 0}}, scratch);
    EXPECT_LE(difference(image, testing::kElastic), 1);
}

// One value of the noise, smoothed by torchvision's kernels in double precision.
double smoothed(const std::vector<float>& noise, ImageSize size, int row, int column, int kernel, double sx,
                double sy) {
    const auto index = [](int at, int length) {
        while (at < 0 || at >= length) {
            at = at < 0 ? -at : 2 * (length - 1) - at;
        }
        return at;
    };
    double sum = 0;
    double weights = 0;
    for (int y = -kernel / 2; y <= kernel / 2; ++y) {
        for (int x = -kernel / 2; x <= kernel / 2; ++x) {
            const double weight = std::exp(-0.5 * (x * x / sx / sx + y * y / sy / sy));
            weights += weight;
            sum += weight * static_cast<double>(noise[static_cast<std::size_t>(
                                index(row + y, size.height) * size.width + index(column + x, size.width))]);
        }
    }
    return sum / weights;
}

TEST(Elastic, TheFieldIsSmoothedNoise) {
    constexpr ImageSize kSize{.height = 9, .width = 13};
    constexpr float kAlpha = 30;
    Rng rng({.seed = 2});
    const Displacement plain = draw_elastic({.alpha = {kAlpha, kAlpha}, .sigma = {0, 0}}, kSize, rng);
    Rng again({.seed = 2});
    const Displacement drawn = draw_elastic({.alpha = {kAlpha, kAlpha}, .sigma = {1.5f, 0.75f}}, kSize, again);
    ASSERT_EQ(drawn.x.size(), 9U * 13U);
    for (int row = 0; row < kSize.height; ++row) {
        for (int column = 0; column < kSize.width; ++column) {
            const auto at = static_cast<std::size_t>(row * kSize.width + column);
            EXPECT_NEAR(drawn.x[at], smoothed(plain.x, kSize, row, column, 13, 1.5, 0.75), 1e-5);
            EXPECT_NEAR(drawn.y[at], smoothed(plain.y, kSize, row, column, 7, 1.5, 0.75), 1e-5);
        }
    }
    const auto [least, most] = std::ranges::minmax(plain.x);
    EXPECT_NEAR(least, -kAlpha / 13, 0.2);
    EXPECT_NEAR(most, kAlpha / 13, 0.2);
}

// The stream of an op is shorter than the noise of such an image.
TEST(Elastic, TheNoiseOfALargeImageIsNotThatOfTheNextOp) {
    constexpr ImageSize kSize{.height = 512, .width = 512};
    Rng rng({.seed = 2, .op = 3});
    Rng next({.seed = 2, .op = 4});
    const Displacement one = draw_elastic({.sigma = {0, 0}}, kSize, rng);
    const Displacement other = draw_elastic({.sigma = {0, 0}}, kSize, next);
    for (const auto* field : {&one.x, &one.y}) {
        for (const auto* of_next : {&other.x, &other.y}) {
            std::size_t equal = 0;
            for (std::size_t i = 0; i < field->size(); ++i) {
                equal += (*field)[i] == (*of_next)[i] ? 1 : 0;
            }
            EXPECT_LT(equal, 20U);
        }
    }
    EXPECT_NE(one.x, one.y);
}

TEST(Elastic, AppliesWithItsProbabilityToImagesOfAnySize) {
    int applied = 0;
    Image scratch;
    for (std::uint64_t sample = 0; sample < 400; ++sample) {
        Rng rng({.seed = 3, .sample = sample});
        Image image = testing::noise(1 + static_cast<int>(sample % 4), 1 + static_cast<int>(sample % 300), 3);
        const Displacement by = draw_elastic({.probability = 0.5f}, {image.height(), image.width()}, rng);
        applied += by.x.empty() ? 0 : 1;
        elastic(image.view(), by, Interpolation::nearest, {}, scratch);
    }
    EXPECT_NEAR(applied, 200, 60);
    Rng rng({});
    EXPECT_THROW(draw_elastic({.sigma = {101, 1}}, {4, 4}, rng), InvalidArgument);
    Image image = testing::noise(4, 4, 3);
    EXPECT_THROW(elastic(image.view(), {.x = {0}, .y = {0}}, Interpolation::nearest, {}, scratch), InvalidArgument);
}

}  // namespace
}  // namespace stoker

// Boxes compared with torchvision's, and the distribution of the random ones.
#include "stoker/ops/crop.h"
#include "stoker/ops/random_crop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/support.h"
#include "stoker/base/error.h"

namespace stoker {
namespace {

TEST(CenterCrop, IsTorchvisions) {
    const struct {
        int image_height, image_width;
        Box box;
    } cases[] = {
        {256, 341, {16, 58, 224, 224}}, {375, 500, {76, 138, 224, 224}},
        {9, 9, {2, 2, 4, 4}},           {7, 8, {2, 2, 4, 3}},
        {10, 11, {2, 4, 5, 4}},         {13, 6, {4, 2, 6, 3}},
        {225, 227, {0, 2, 224, 224}},   {5, 9, {-1, 2, 7, 4}},
        {5, 5, {-1, -1, 8, 8}},         {3, 10, {-1, -1, 6, 13}},
        {4, 9, {0, 0, 4, 9}},           {1, 1, {0, -2, 2, 5}},
    };
    for (const auto& [height, width, box] : cases) {
        EXPECT_EQ(center_crop_box(height, width, box.height, box.width), box) << height << "x" << width;
    }
    EXPECT_THROW(center_crop_box(4, 4, 0, 4), InvalidArgument);
}

TEST(RandomResizedCrop, FallsBackAsTorchvisionDoes) {
    const struct {
        int height, width;
        Box box;
    } cases[] = {
        {100, 400, {0, 133, 100, 133}}, {400, 100, {133, 0, 133, 100}}, {100, 120, {0, 0, 100, 120}},
        {333, 500, {0, 28, 333, 444}},  {10, 1000, {0, 493, 10, 13}},   {1000, 7, {495, 0, 9, 7}},
        {1, 9, {0, 4, 1, 1}},           {9, 1, {4, 0, 1, 1}},           {201, 300, {0, 16, 201, 268}},
        {300, 201, {16, 0, 268, 201}},  {55, 75, {0, 1, 55, 73}},       {64, 64, {0, 0, 64, 64}},
    };
    const RandomResizedCrop op{.scale_low = 2, .scale_high = 2};  // twice the image never fits
    for (const auto& [height, width, box] : cases) {
        Rng rng({});
        EXPECT_EQ(draw_random_resized_crop(op, height, width, rng), box) << height << "x" << width;
    }
}

TEST(RandomResizedCrop, StaysInsideOnExtremeImages) {
    Rng rng({.seed = 2});
    for (const auto& [height, width] : {std::pair{1, 1}, {1, 5000}, {5000, 1}, {3, 700}, {2, 2}}) {
        for (int i = 0; i < 2000; ++i) {
            const Box box = draw_random_resized_crop({}, height, width, rng);
            ASSERT_TRUE(box.height >= 1 && box.width >= 1 && box.top >= 0 && box.left >= 0 &&
                        box.top + box.height <= height && box.left + box.width <= width)
                << height << "x" << width;
        }
    }
}

TEST(RandomResizedCrop, AreaAndRatioAreInRangeAndUniform) {
    // With 0.1 to 0.4 of a square's area every box fits, so no draw is rejected.
    const RandomResizedCrop op{.scale_low = 0.1f, .scale_high = 0.4f};
    constexpr int kDraws = 40000;
    constexpr int kSide = 2000;
    const double widest = std::log(4.0 / 3.0);
    int area_bins[10] = {};
    int ratio_bins[10] = {};
    int left_bins[10] = {};
    for (int i = 0; i < kDraws; ++i) {
        Rng rng({.seed = 9, .sample = static_cast<std::uint64_t>(i)});
        const Box box = draw_random_resized_crop(op, kSide, kSide, rng);
        const double area = static_cast<double>(box.height) * box.width / (double{kSide} * kSide);
        const double ratio = std::log(static_cast<double>(box.width) / box.height);
        ASSERT_TRUE(area > 0.0997 && area < 0.4013) << area;
        ASSERT_LT(std::abs(ratio), widest + 0.003);
        const auto bin = [](double share) { return std::clamp(static_cast<int>(share * 10), 0, 9); };
        ++area_bins[bin((area - 0.1) / 0.3)];
        ++ratio_bins[bin((ratio + widest) / (2 * widest))];
        ++left_bins[bin(box.left / (kSide - box.width + 1.0))];
    }
    for (int i = 0; i < 10; ++i) {  // 4000 per bin; six standard deviations are 360
        EXPECT_NEAR(area_bins[i], kDraws / 10, 360) << i;
        EXPECT_NEAR(ratio_bins[i], kDraws / 10, 360) << i;
        EXPECT_NEAR(left_bins[i], kDraws / 10, 360) << i;
    }
}

TEST(RandomResizedCrop, HasTorchvisionsMeansIfBoxesAreRejected) {
    // Means over 60,000 draws of torchvision.transforms.RandomResizedCrop.get_params, defaults.
    const struct {
        int height, width;
        double area, log_ratio, top, left;
    } cases[] = {{375, 500, 0.4329, 0.0308, 0.1397, 0.2176}, {500, 200, 0.2546, -0.0368, 0.3399, 0.1181}};
    constexpr int kDraws = 60000;
    for (const auto& expected : cases) {
        double area = 0, log_ratio = 0, top = 0, left = 0;
        Rng rng({.seed = 4});
        for (int i = 0; i < kDraws; ++i) {
            const Box box = draw_random_resized_crop({}, expected.height, expected.width, rng);
            area += static_cast<double>(box.height) * box.width / (double{1} * expected.height * expected.width);
            log_ratio += std::log(static_cast<double>(box.width) / box.height);
            top += static_cast<double>(box.top) / expected.height;
            left += static_cast<double>(box.left) / expected.width;
        }
        EXPECT_NEAR(area / kDraws, expected.area, 0.007);
        EXPECT_NEAR(log_ratio / kDraws, expected.log_ratio, 0.005);
        EXPECT_NEAR(top / kDraws, expected.top, 0.005);
        EXPECT_NEAR(left / kDraws, expected.left, 0.005);
    }
}

TEST(RandomResizedCrop, IsAFunctionOfItsKeyAndRefusesNonsense) {
    Rng a({.seed = 1, .epoch = 2, .sample = 3});
    Rng b({.seed = 1, .epoch = 2, .sample = 3});
    EXPECT_EQ(draw_random_resized_crop({}, 375, 500, a), draw_random_resized_crop({}, 375, 500, b));
    EXPECT_THROW(draw_random_resized_crop({}, 0, 500, a), InvalidArgument);
    EXPECT_THROW(draw_random_resized_crop({.scale_low = 0.5f, .scale_high = 0.4f}, 9, 9, a), InvalidArgument);
    EXPECT_THROW(draw_random_resized_crop({.ratio_low = 0}, 9, 9, a), InvalidArgument);
}

TEST(CropPadded, CopiesWhatOverlapsAndZeroesTheRest) {
    const Image from = testing::noise(6, 7, 3);
    for (const Box& box : {Box{0, 0, 6, 7}, Box{2, 3, 3, 2}, Box{-2, -3, 10, 13}, Box{4, 5, 6, 6}, Box{-3, 2, 4, 3},
                           Box{-5, -9, 5, 9}, Box{6, 0, 2, 7}, Box{0, 7, 2, 3}, Box{1, -40, 2, 20}}) {
        Image to(box.height, box.width, 3);
        std::fill_n(to.view().data, to.bytes(), std::uint8_t{99});
        padded_crop(from.view(), box, PaddingMode::constant, {}, to.view());
        for (int y = 0; y < box.height; ++y) {
            for (int x = 0; x < box.width; ++x) {
                const int row = box.top + y;
                const int column = box.left + x;
                const bool inside = row >= 0 && row < 6 && column >= 0 && column < 7;
                for (int c = 0; c < 3; ++c) {
                    ASSERT_EQ(to.view().row(y)[x * 3 + c], inside ? from.view().row(row)[column * 3 + c] : 0);
                }
            }
        }
    }
    Image wrong(2, 2, 3);
    EXPECT_THROW(padded_crop(from.view(), {0, 0, 3, 2}, PaddingMode::constant, {}, wrong.view()), InvalidArgument);
}

}  // namespace
}  // namespace stoker

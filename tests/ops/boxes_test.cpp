// Boxes against torchvision's, bit for bit, as its matrix product rounds where it does not fuse.
#include "stoker/ops/boxes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "ops/golden.h"
#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr ImageSize kImage{.height = 60, .width = 80};
constexpr Box kCrop{7, 9, 31, 41};

using Boxes = std::vector<float>;

Boxes changed(const std::function<void(std::span<float>)>& change) {
    Boxes boxes(std::begin(testing::kBoxes), std::end(testing::kBoxes));
    change(boxes);
    return boxes;
}

Boxes golden(std::span<const float> values) {
    return {values.begin(), values.end()};
}

TEST(Boxes, CropsAreTorchvisions) {
    EXPECT_EQ(changed([](auto boxes) { crop_boxes(boxes, kCrop); }), golden(testing::kBoxesCropped));
    const RandomCrop op{.height = 62, .width = 82, .padding = {.left = 4, .top = 3, .right = 2, .bottom = 1}};
    const Box window{2 - 3, 1 - 4, 62, 82};  // relative to the image without padding
    EXPECT_EQ(changed([&](auto boxes) { random_crop_boxes(boxes, op, window, kImage); }),
              golden(testing::kBoxesPadded));
}

TEST(Boxes, ARandomCropOfTheWholeImageDoesNotClip) {
    const RandomCrop op{.height = kImage.height, .width = kImage.width};
    EXPECT_EQ(changed([&](auto boxes) {
                  random_crop_boxes(boxes, op, {0, 0, 60, 80}, kImage);
              }),
              golden(testing::kBoxes));
}

TEST(Boxes, MirroredPaddingHasNoBoxes) {
    const RandomCrop op{.height = 60, .width = 80, .padding = {1, 1, 1, 1}, .mode = PaddingMode::reflect};
    EXPECT_THROW(changed([&](auto boxes) { random_crop_boxes(boxes, op, {0, 0, 60, 80}, kImage); }), InvalidArgument);
}

TEST(Boxes, ResizesAreTorchvisions) {
    EXPECT_EQ(changed([](auto boxes) { resize_boxes(boxes, kImage, {224, 33}); }), golden(testing::kBoxesResized));
    EXPECT_EQ(changed([](auto boxes) { resize_boxes(boxes, kImage, kImage); }), golden(testing::kBoxes));
    EXPECT_EQ(changed([](auto boxes) {
                  crop_boxes(boxes, kCrop);
                  resize_boxes(boxes, {kCrop.height, kCrop.width}, {224, 224});
              }),
              golden(testing::kBoxesResizedCrop));
}

TEST(Boxes, FlipsAreTorchvisions) {
    EXPECT_EQ(changed([](auto boxes) { horizontal_flip_boxes(boxes, 80); }), golden(testing::kBoxesFlipped));
    EXPECT_EQ(changed([](auto boxes) { vertical_flip_boxes(boxes, 60); }), golden(testing::kBoxesUpsideDown));
}

TEST(Boxes, AffineTransformsAreTorchvisions) {
    const AffineParams move{.angle = 17.3, .translate = {3, -5}, .scale = 0.83, .shear = {11, -7}};
    EXPECT_EQ(changed([&](auto boxes) { affine_boxes(boxes, move, kImage); }), golden(testing::kBoxesMoved));
    EXPECT_EQ(changed([](auto boxes) { rotate_boxes(boxes, 33, kImage); }), golden(testing::kBoxesTurned));
    EXPECT_EQ(changed([](auto boxes) { rotate_boxes(boxes, -90, kImage); }), golden(testing::kBoxesTurnedBack));
}

// The pixels inside of a box, and no others, are inside of the moved box.
TEST(Boxes, FollowThePixels) {
    Image image(60, 80, 1);
    std::fill_n(image.view().data, image.bytes(), std::uint8_t{0});
    const Box marked{20, 30, 9, 12};
    for (int y = 0; y < marked.height; ++y) {
        std::fill_n(image.view().row(marked.top + y) + marked.left, marked.width, std::uint8_t{255});
    }
    const AffineParams move{.angle = -25, .translate = {7, 3}, .scale = 1.25, .shear = {5, 0}};
    Image scratch;
    affine(image.view(), move, Interpolation::nearest, {}, scratch);
    Boxes box = {30, 20, 42, 29};
    affine_boxes(box, move, kImage);
    int least_x = 80;
    int largest_x = 0;
    for (int y = 0; y < 60; ++y) {
        for (int x = 0; x < 80; ++x) {
            if (image.view().row(y)[x] != 0) {
                least_x = std::min(least_x, x);
                largest_x = std::max(largest_x, x + 1);
                EXPECT_TRUE(static_cast<float>(y) + 1 > box[1] && static_cast<float>(y) < box[3]) << y;
            }
        }
    }
    EXPECT_NEAR(static_cast<float>(least_x), box[0], 1.5);
    EXPECT_NEAR(static_cast<float>(largest_x), box[2], 1.5);
}

TEST(Boxes, NoBoxesAndHalfABox) {
    Boxes none;
    crop_boxes(none, kCrop);
    affine_boxes(none, {.angle = 3}, kImage);
    EXPECT_TRUE(none.empty());
    Boxes half(6);
    EXPECT_THROW(crop_boxes(half, kCrop), InvalidArgument);
    EXPECT_THROW(horizontal_flip_boxes(half, 8), InvalidArgument);
}

}  // namespace
}  // namespace stoker

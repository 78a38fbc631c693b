// The sizes against their definition, and boxes by their properties.
#include "stoker/ops/aspect_crop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "stoker/base/error.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;

TEST(AspectCrop, SizesForEveryRatio) {
    EXPECT_THAT(aspect_sizes({.size = 512, .step = 64}),
                ElementsAre(ImageSize{640, 384}, ImageSize{576, 448}, ImageSize{512, 512}, ImageSize{448, 576},
                            ImageSize{384, 640}));
    EXPECT_THAT(aspect_sizes({.size = 96, .step = 32, .max_ratio = 1}), ElementsAre(ImageSize{96, 96}));
    for (const int step : {1, 8, 40}) {
        const AspectCrop op{.size = 240, .step = step, .max_ratio = 3};
        const std::vector<ImageSize> sizes = aspect_sizes(op);
        EXPECT_NE(std::ranges::find(sizes, ImageSize{240, 240}), sizes.end());
        double last = 0;
        for (const auto [height, width] : sizes) {
            EXPECT_LE(height * width, 240 * 240);
            EXPECT_TRUE(height % step == 0 && width % step == 0);
            EXPECT_LE(std::max(height, width), 3 * std::min(height, width));
            EXPECT_GT(static_cast<double>(width) / height, last);
            last = static_cast<double>(width) / height;
        }
    }
    EXPECT_THROW(aspect_sizes({.size = 100, .step = 64}), InvalidArgument);
    EXPECT_THROW(aspect_sizes({.size = 64, .step = 64, .max_ratio = 0.5f}), InvalidArgument);
}

TEST(AspectCrop, TheNearestRatioAsAQuotient) {
    const std::vector<ImageSize> sizes = {{200, 100}, {100, 100}, {100, 200}};
    EXPECT_EQ(nearest_aspect(sizes, {1000, 1}), 0U);
    EXPECT_EQ(nearest_aspect(sizes, {141, 100}), 1U);
    EXPECT_EQ(nearest_aspect(sizes, {142, 100}), 0U);
    EXPECT_EQ(nearest_aspect(sizes, {100, 142}), 2U);
}

TEST(AspectCrop, TheLargestBoxOfTheRatio) {
    Rng rng({.seed = 3});
    for (const ImageSize image : {ImageSize{300, 200}, ImageSize{7, 900}, ImageSize{1, 1}, ImageSize{64, 96}}) {
        for (const ImageSize to : {ImageSize{64, 96}, ImageSize{640, 384}}) {
            const AspectCrop op;
            const Box box = draw_aspect_crop(op, image, to, rng);
            EXPECT_TRUE(box.top >= 0 && box.left >= 0 && box.height >= 1 && box.width >= 1);
            EXPECT_TRUE(box.top + box.height <= image.height && box.left + box.width <= image.width);
            EXPECT_TRUE(box.height == image.height || box.width == image.width);
            const double wanted = static_cast<double>(box.height) * to.width / to.height;
            EXPECT_LE(std::abs(wanted - box.width), std::max(1.0, 0.5 * to.width / to.height)) << box.height;
            const Box middle = draw_aspect_crop({.random = false}, image, to, rng);
            EXPECT_LE(std::abs(2 * middle.top + middle.height - image.height), 1);
            EXPECT_LE(std::abs(2 * middle.left + middle.width - image.width), 1);
        }
    }
}

}  // namespace
}  // namespace stoker

// Nearest resize against torchvision's masks; parts and flips against the whole resize.
#include "stoker/ops/nearest.h"

#include <gtest/gtest.h>

#include <numeric>

#include "ops/golden.h"
#include "ops/pixels.h"
#include "ops/support.h"
#include "stoker/base/error.h"
#include "stoker/ops/flip.h"

namespace stoker {
namespace {

using testing::difference;

Image resized(const Image& image, int height, int width) {
    Image out(height, width, image.channels());
    resize_nearest(image.view(), out.view());
    return out;
}

TEST(Nearest, IsTorchvisions) {
    const Image mask = testing::pattern(13, 17, 1);
    EXPECT_EQ(difference(resized(mask, 7, 9), testing::kMaskSmaller), 0);
    EXPECT_EQ(difference(resized(mask, 29, 20), testing::kMaskLarger), 0);
    EXPECT_EQ(difference(resized(mask, 13, 17), mask), 0);
    Image line(1, 250, 1);
    std::iota(line.view().data, line.view().data + line.bytes(), std::uint8_t{0});
    EXPECT_EQ(difference(resized(line, 1, 333), testing::kLineLarger), 0);
    EXPECT_EQ(difference(resized(line, 1, 187), testing::kLineSmaller), 0);
}

TEST(Nearest, PartsAndFlipsAreThoseOfTheWhole) {
    for (int channels = 1; channels <= 4; ++channels) {
        const Image image = testing::noise(31, 47, channels);
        const Image whole = resized(image, 70, 2100);  // wider than a block of columns
        for (const Box part : {Box{0, 0, 70, 2100}, Box{5, 1000, 40, 90}, Box{69, 2099, 1, 1}}) {
            for (const bool flip : {false, true}) {
                Image wanted(part.height, part.width, channels);
                copy_pixels(whole.view().crop(part), wanted.view());
                if (flip) {
                    horizontal_flip(wanted.view());
                }
                Image out(part.height, part.width, channels);
                resize_nearest(image.view(), {{31, 47}, {70, 2100}, part, flip}, out.view());
                EXPECT_EQ(difference(out, wanted), 0) << channels << " " << part.left << " " << flip;
            }
        }
    }
}

TEST(Nearest, RefusesWrongShapes) {
    const Image image = testing::noise(4, 5, 1);
    Image three(2, 2, 3);
    Image out(2, 2, 1);
    EXPECT_THROW(resize_nearest(image.view(), three.view()), InvalidArgument);
    EXPECT_THROW(resize_nearest(image.view(), {{4, 4}, {2, 2}, {0, 0, 2, 2}}, out.view()), InvalidArgument);
    EXPECT_THROW(resize_nearest(image.view(), {{4, 5}, {2, 2}, {0, 1, 2, 2}}, out.view()), InvalidArgument);
    EXPECT_THROW(resize_nearest(image.view(), {{4, 5}, {3, 3}, {0, 0, 3, 3}}, out.view()), InvalidArgument);
}

}  // namespace
}  // namespace stoker

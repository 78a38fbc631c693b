// The flip compared with its definition, for all channels, odd widths and padded rows.
#include "stoker/ops/flip.h"

#include <gtest/gtest.h>

#include <cstring>

#include "ops/support.h"
#include "stoker/base/error.h"

namespace stoker {
namespace {

TEST(HorizontalFlip, MirrorsAndTwiceIsIdentity) {
    for (int channels = 1; channels <= 4; ++channels) {
        for (const int width : {1, 2, 3, 15, 16, 17, 64, 65}) {
            const Image original = testing::noise(3, width, channels);
            Image image = testing::noise(3, width, channels);
            horizontal_flip(image.view());
            for (int y = 0; y < 3; ++y) {
                for (int x = 0; x < width; ++x) {
                    for (int c = 0; c < channels; ++c) {
                        ASSERT_EQ(image.view().row(y)[x * channels + c],
                                  original.view().row(y)[(width - 1 - x) * channels + c]);
                    }
                }
            }
            horizontal_flip(image.view());
            ASSERT_EQ(std::memcmp(image.view().data, original.view().data, image.bytes()), 0);
        }
    }
}

TEST(HorizontalFlip, DoesNotChangePixelsOutsideOfTheView) {
    const Image original = testing::noise(5, 9, 3);
    Image image = testing::noise(5, 9, 3);
    horizontal_flip(image.view().crop({1, 2, 3, 4}));
    for (int y = 0; y < 5; ++y) {
        for (int x = 0; x < 9; ++x) {
            const bool inside = y >= 1 && y < 4 && x >= 2 && x < 6;
            ASSERT_EQ(image.view().row(y)[x * 3], original.view().row(y)[(inside ? 7 - x : x) * 3]);
        }
    }
    Image five(2, 2, 5);
    EXPECT_THROW(horizontal_flip(five.view()), InvalidArgument);
}

TEST(HorizontalFlip, IsDrawnWithItsProbability) {
    int flips = 0;
    for (std::uint64_t sample = 0; sample < 20000; ++sample) {
        Rng rng({.seed = 6, .sample = sample});
        flips += draw_horizontal_flip({.probability = 0.25f}, rng) ? 1 : 0;
    }
    EXPECT_NEAR(flips, 5000, 370);  // six standard deviations
    Rng rng({});
    EXPECT_FALSE(draw_horizontal_flip({.probability = 0}, rng));
    EXPECT_TRUE(draw_horizontal_flip({.probability = 1}, rng));
}

}  // namespace
}  // namespace stoker

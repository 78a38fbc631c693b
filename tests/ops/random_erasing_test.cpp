// Which pixels are erased, and how boxes are drawn.
#include "stoker/ops/random_erasing.h"

#include <gtest/gtest.h>

#include <numeric>

#include "ops/pixels.h"
#include "ops/support.h"
#include "stoker/base/error.h"

namespace stoker {
namespace {

using testing::copy_of;
using testing::difference;

TEST(RandomErasing, FillsItsBoxAndNothingElse) {
    for (int channels = 1; channels <= 4; ++channels) {
        const Image image = testing::noise(9, 12, channels);
        Image erased = copy_of(image);
        const Color color{10, 20, 30, 40};
        random_erasing(erased.view(), {.box = {2, 3, 4, 5}, .value = color});
        for (int y = 0; y < 9; ++y) {
            for (int x = 0; x < 12; ++x) {
                const bool inside = y >= 2 && y < 6 && x >= 3 && x < 8;
                for (int c = 0; c < channels; ++c) {
                    const int place = x * channels + c;
                    ASSERT_EQ(erased.view().row(y)[place],
                              inside ? color[static_cast<std::size_t>(c)] : image.view().row(y)[place]);
                }
            }
        }
    }
}

TEST(RandomErasing, NoiseIsEvenAndAFunctionOfItsSeed) {
    Image image(300, 400, 3);
    random_erasing(image.view(), {.box = {0, 0, 300, 400}, .value = {}, .noise = 7});
    const std::uint8_t* bytes = image.view().data;
    const double mean = std::accumulate(bytes, bytes + image.bytes(), 0.0) / static_cast<double>(image.bytes());
    EXPECT_NEAR(mean, 127.5, 0.75);  // six standard deviations
    EXPECT_NE(std::memcmp(image.view().row(0), image.view().row(1), 1200), 0);
    Image again(300, 400, 3);
    random_erasing(again.view(), {.box = {0, 0, 300, 400}, .value = {}, .noise = 7});
    EXPECT_EQ(difference(image, again), 0);
    random_erasing(again.view(), {.box = {0, 0, 300, 400}, .value = {}, .noise = 8});
    EXPECT_GT(difference(image, again), 0);
}

TEST(RandomErasing, DrawsBoxesOfItsScaleAndRatio) {
    int erased = 0;
    for (std::uint64_t sample = 0; sample < 5000; ++sample) {
        Rng rng({.seed = 3, .sample = sample});
        const ErasingParams params = draw_random_erasing({}, 200, 300, rng);
        const Box& box = params.box;
        if (box.height == 0) {
            continue;
        }
        ++erased;
        const double share = box.height * box.width / 60000.0;
        const double ratio = static_cast<double>(box.height) / box.width;
        ASSERT_GT(share, 0.018);
        ASSERT_LT(share, 0.34);
        ASSERT_GT(ratio, 0.28);
        ASSERT_LT(ratio, 3.5);
        ASSERT_GE(box.top, 0);
        ASSERT_GE(box.left, 0);
        ASSERT_LE(box.top + box.height, 200);
        ASSERT_LE(box.left + box.width, 300);
    }
    EXPECT_NEAR(erased, 2500, 215);  // six standard deviations
}

TEST(RandomErasing, GivesUpWhereNoBoxFits) {
    Rng rng({});
    const RandomErasing whole{.probability = 1, .scale_low = 1, .scale_high = 1, .ratio_low = 1, .ratio_high = 1};
    const ErasingParams params = draw_random_erasing(whole, 20, 20, rng);
    EXPECT_EQ(params.box.height, 0);
    const Image image = testing::noise(20, 20, 3);
    Image same = copy_of(image);
    random_erasing(same.view(), params);
    EXPECT_EQ(difference(same, image), 0);
}

TEST(RandomErasing, RefusesNonsense) {
    Rng rng({});
    Image image = testing::noise(4, 4, 3);
    EXPECT_THROW(draw_random_erasing({.scale_low = 0.5f, .scale_high = 0.4f}, 4, 4, rng), InvalidArgument);
    EXPECT_THROW(draw_random_erasing({.ratio_low = 0}, 4, 4, rng), InvalidArgument);
    EXPECT_THROW(random_erasing(image.view(), {.box = {0, 0, 5, 1}}), InvalidArgument);
    EXPECT_THROW(random_erasing(image.view(), {.box = {-1, 0, 1, 1}}), InvalidArgument);
    EXPECT_THROW(random_erasing(image.view(), {.box = {2147483647, 0, 1, 1}}), InvalidArgument);
}

}  // namespace
}  // namespace stoker

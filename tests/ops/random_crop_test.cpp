// Padded crops compared with written-out padding and with torchvision's pixels; the range of the windows.
#include "stoker/ops/random_crop.h"

#include <gtest/gtest.h>

#include <set>

#include "ops/golden.h"
#include "ops/pixels.h"
#include "ops/support.h"
#include "stoker/base/error.h"

namespace stoker::random_crop_test {
namespace {

using testing::difference;

constexpr Color kFill{1, 2, 3, 4};

// Crops a row of the pixels 0 1 2 3, beginning at `left`.
std::vector<int> row_of(int left, int width, PaddingMode mode, int length = 4) {
    Image image(1, length, 1);
    for (int x = 0; x < length; ++x) {
        image.view().data[x] = static_cast<std::uint8_t>(x);
    }
    Image out(1, width, 1);
    padded_crop(image.view(), {0, left, 1, width}, mode, {9}, out.view());
    return {out.view().data, out.view().data + width};
}

TEST(RandomCrop, PadsInEveryMode) {
    EXPECT_EQ(row_of(-2, 9, PaddingMode::constant), (std::vector{9, 9, 0, 1, 2, 3, 9, 9, 9}));
    EXPECT_EQ(row_of(-2, 9, PaddingMode::edge), (std::vector{0, 0, 0, 1, 2, 3, 3, 3, 3}));
    EXPECT_EQ(row_of(-2, 9, PaddingMode::reflect), (std::vector{2, 1, 0, 1, 2, 3, 2, 1, 0}));
    EXPECT_EQ(row_of(-2, 9, PaddingMode::symmetric), (std::vector{1, 0, 0, 1, 2, 3, 3, 2, 1}));
    EXPECT_EQ(row_of(-7, 8, PaddingMode::reflect), (std::vector{1, 0, 1, 2, 3, 2, 1, 0}));
    EXPECT_EQ(row_of(-9, 10, PaddingMode::symmetric), (std::vector{0, 0, 1, 2, 3, 3, 2, 1, 0, 0}));
    EXPECT_EQ(row_of(-2, 5, PaddingMode::reflect, 1), (std::vector{0, 0, 0, 0, 0}));
    EXPECT_EQ(row_of(-2, 5, PaddingMode::symmetric, 1), (std::vector{0, 0, 0, 0, 0}));
    EXPECT_EQ(row_of(6, 3, PaddingMode::constant), (std::vector{9, 9, 9}));
    EXPECT_EQ(row_of(-5, 3, PaddingMode::edge), (std::vector{0, 0, 0}));
}

TEST(RandomCrop, ReflectIsTorchvisions) {
    const Image image = testing::pattern(6, 7, 3);
    Image out(8, 10, 3);
    padded_crop(image.view(), {1 - 2, 0 - 3, 8, 10}, PaddingMode::reflect, {}, out.view());
    EXPECT_EQ(difference(out, testing::kReflect), 0);
}

TEST(RandomCrop, ConstantIsTheFillInEveryChannel) {
    for (int channels = 1; channels <= 4; ++channels) {
        const Image image = testing::noise(5, 6, channels);
        Image out(9, 11, channels);
        padded_crop(image.view(), {-2, -3, 9, 11}, PaddingMode::constant, kFill, out.view());
        for (int y = 0; y < 9; ++y) {
            for (int x = 0; x < 11; ++x) {
                const bool inside = y >= 2 && y < 7 && x >= 3 && x < 9;
                for (int c = 0; c < channels; ++c) {
                    ASSERT_EQ(out.view().row(y)[x * channels + c], inside
                                                                       ? image.view().row(y - 2)[(x - 3) * channels + c]
                                                                       : kFill[static_cast<std::size_t>(c)]);
                }
            }
        }
    }
}

TEST(RandomCrop, DrawsEveryWindowAndNoOther) {
    const RandomCrop op{.height = 5, .width = 6, .padding = {.left = 1, .top = 2, .right = 3, .bottom = 0}};
    std::set<std::pair<int, int>> places;
    for (std::uint64_t sample = 0; sample < 2000; ++sample) {
        Rng rng({.seed = 5, .sample = sample});
        const Box box = draw_random_crop(op, 6, 7, rng);
        EXPECT_EQ(box.height, 5);
        EXPECT_EQ(box.width, 6);
        places.emplace(box.top, box.left);
    }
    EXPECT_EQ(places.size(), 4u * 6u);  // tops -2 ... 1, lefts -1 ... 4
    EXPECT_EQ(places.begin()->first, -2);
    EXPECT_EQ(places.begin()->second, -1);
    EXPECT_EQ(places.rbegin()->first, 1);
    EXPECT_EQ(places.rbegin()->second, 4);
}

TEST(RandomCrop, PadsIfNeeded) {
    Rng rng({});
    EXPECT_THROW(draw_random_crop({.height = 10, .width = 10}, 9, 12, rng), DataError);
    int least = 0;
    int most = -9;
    for (std::uint64_t sample = 0; sample < 200; ++sample) {
        Rng own({.sample = sample});
        const Box box = draw_random_crop({.height = 10, .width = 10, .pad_if_needed = true}, 7, 12, own);
        least = std::min(least, box.top);
        most = std::max(most, box.top);
        EXPECT_GE(box.left, 0);
        EXPECT_LE(box.left, 2);
    }
    EXPECT_EQ(least, -3);
    EXPECT_EQ(most, 0);
    EXPECT_THROW(draw_random_crop({.padding = {.left = -1}}, 40, 40, rng), InvalidArgument);
    EXPECT_THROW(draw_random_crop({.height = 0}, 40, 40, rng), InvalidArgument);
    EXPECT_THROW(draw_random_crop({.height = 10, .width = 10}, 40, (1 << 20) + 1, rng), DataError)
        << "an image's fault";
    EXPECT_THROW(draw_random_crop({.height = 10, .width = 10}, 0, 40, rng), DataError);
    const Image image = testing::noise(3, 3, 3);
    Image out(2, 2, 3);
    EXPECT_THROW(padded_crop(image.view(), {0, 0, 2, 3}, PaddingMode::edge, {}, out.view()), InvalidArgument);
}

}  // namespace
}  // namespace stoker::random_crop_test

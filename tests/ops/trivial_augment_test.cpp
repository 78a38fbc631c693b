// torchvision's magnitudes; each op compared with its function; the draws.
#include "stoker/ops/trivial_augment.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "ops/golden.h"
#include "ops/pixels.h"
#include "ops/support.h"
#include "stoker/base/error.h"
#include "stoker/ops/color_jitter.h"
#include "stoker/ops/photometric.h"
#include "stoker/ops/rotation.h"

namespace stoker {
namespace {

using testing::copy_of;
using testing::difference;

Image augmented(const Image& image, TrivialOp op, double magnitude) {
    Image scratch;
    Image copy = copy_of(image);
    trivial_augment(copy.view(), {.op = op, .magnitude = magnitude}, scratch);
    return copy;
}

TEST(TrivialAugment, MagnitudesAreTorchvisions) {
    // float(TrivialAugmentWide._AUGMENTATION_SPACE[op][0](31, 1, 1)[bin])
    EXPECT_EQ(trivial_magnitude(TrivialOp::shear_x, 0, 31), 0.0);
    EXPECT_EQ(trivial_magnitude(TrivialOp::shear_x, 19, 31), static_cast<double>(0.627000034f));
    EXPECT_EQ(trivial_magnitude(TrivialOp::brightness, 30, 31), static_cast<double>(0.99f));
    EXPECT_EQ(trivial_magnitude(TrivialOp::translate_y, 30, 31), 32.0);
    EXPECT_EQ(trivial_magnitude(TrivialOp::rotate, 10, 31), 45.0);
    EXPECT_EQ(trivial_magnitude(TrivialOp::solarize, 0, 31), 1.0);
    EXPECT_EQ(trivial_magnitude(TrivialOp::solarize, 30, 31), 0.0);
    EXPECT_EQ(trivial_magnitude(TrivialOp::equalize, 30, 31), 0.0);
    constexpr int kBits[] = {8, 8, 8, 7, 7, 7, 7, 7, 6, 6, 6, 6, 6, 5, 5, 5,
                             5, 5, 4, 4, 4, 4, 4, 3, 3, 3, 3, 3, 2, 2, 2};
    for (int bin = 0; bin < 31; ++bin) {
        EXPECT_EQ(trivial_magnitude(TrivialOp::posterize, bin, 31), kBits[bin]) << bin;
    }
}

TEST(TrivialAugment, OpsAreTheFunctionsTheyName) {
    const Image image = testing::noise(20, 24, 3);
    Image scratch;
    const auto wanted = [&](auto change) {
        Image copy = copy_of(image);
        change(copy.view());
        return copy;
    };
    EXPECT_EQ(difference(augmented(image, TrivialOp::identity, 0), image), 0);
    EXPECT_EQ(difference(augmented(image, TrivialOp::brightness, 0.5),
                         wanted([](ImageView v) { color_jitter(v, {.brightness = 1.5f}); })),
              0);
    EXPECT_EQ(difference(augmented(image, TrivialOp::color, -0.5),
                         wanted([](ImageView v) { color_jitter(v, {.saturation = 0.5f}); })),
              0);
    EXPECT_EQ(difference(augmented(image, TrivialOp::contrast, 0.25),
                         wanted([](ImageView v) { color_jitter(v, {.contrast = 1.25f}); })),
              0);
    EXPECT_EQ(difference(augmented(image, TrivialOp::sharpness, 0.5),
                         wanted([&](ImageView v) { adjust_sharpness(v, 1.5f, scratch); })),
              0);
    EXPECT_EQ(difference(augmented(image, TrivialOp::posterize, 3), wanted([](ImageView v) { posterize(v, 3); })), 0);
    EXPECT_EQ(difference(augmented(image, TrivialOp::solarize, 0.5), wanted([](ImageView v) { solarize(v, 127.5f); })),
              0);
    EXPECT_EQ(difference(augmented(image, TrivialOp::autocontrast, 0), wanted(autocontrast)), 0);
    EXPECT_EQ(difference(augmented(image, TrivialOp::equalize, 0), wanted(equalize)), 0);
    EXPECT_EQ(difference(augmented(image, TrivialOp::rotate, -45),
                         wanted([&](ImageView v) { rotate(v, -45, Interpolation::nearest, {}, scratch); })),
              0);
}

TEST(TrivialAugment, ShiftsAndShearsMoveToTheRightAndDown) {
    Image image(9, 9, 1);
    std::memset(image.view().data, 0, image.bytes());
    image.view().row(4)[4] = 255;
    EXPECT_EQ(augmented(image, TrivialOp::translate_x, 2.9).view().row(4)[6], 255);  // whole pixels only
    EXPECT_EQ(augmented(image, TrivialOp::translate_y, -2.0).view().row(2)[4], 255);
    EXPECT_EQ(augmented(image, TrivialOp::shear_x, -0.5).view().row(4)[6], 255);  // torchvision's sign
    EXPECT_EQ(augmented(image, TrivialOp::shear_y, -0.5).view().row(6)[4], 255);
}

TEST(TrivialAugment, DrawsEveryOpBinAndSign) {
    std::array<int, kTrivialOps> counts{};
    int negative = 0;
    int shears = 0;
    for (std::uint64_t sample = 0; sample < 28000; ++sample) {
        Rng rng({.seed = 9, .sample = sample});
        const TrivialAugmentParams params = draw_trivial_augment({}, rng);
        ++counts[static_cast<std::size_t>(params.op)];
        if (params.op == TrivialOp::shear_x && params.magnitude != 0) {
            ++shears;
            negative += params.magnitude < 0 ? 1 : 0;
        }
        ASSERT_LE(std::abs(params.magnitude), 135);
        ASSERT_TRUE(params.magnitude >= 0 || params.op <= TrivialOp::sharpness);
    }
    for (const int count : counts) {
        EXPECT_NEAR(count, 2000, 260);  // six standard deviations
    }
    EXPECT_NEAR(negative, shears / 2, 135);
    Rng rng({});
    EXPECT_THROW(draw_trivial_augment({.bins = 1}, rng), InvalidArgument);
}

TEST(TrivialAugment, EveryOpWorksOnTinyAndGrayImages) {
    Image scratch;
    for (const int channels : {1, 3}) {
        for (const int side : {1, 2, 3}) {
            for (std::uint32_t op = 0; op < kTrivialOps; ++op) {
                for (const int bin : {0, 15, 30}) {
                    const auto which = static_cast<TrivialOp>(op);
                    Image image = testing::noise(side, side + 1, channels);
                    trivial_augment(image.view(), {.op = which, .magnitude = trivial_magnitude(which, bin, 31)},
                                    scratch);
                    EXPECT_EQ(image.bytes(), static_cast<std::size_t>(side * (side + 1) * channels));
                }
            }
        }
    }
    Image four = testing::noise(4, 4, 4);
    EXPECT_THROW(trivial_augment(four.view(), {.op = TrivialOp::color, .magnitude = 0.5}, scratch), DataError);
}

}  // namespace
}  // namespace stoker

// torchvision's magnitudes; each op compared with its function.
#include "stoker/ops/augment.h"

#include <gtest/gtest.h>

#include <iterator>

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

Image augmented(const Image& image, AugmentOp op, double magnitude) {
    Image scratch;
    Image copy = copy_of(image);
    augment(copy.view(), {.op = op, .magnitude = magnitude}, scratch);
    return copy;
}

TEST(Augment, MagnitudesAreTorchvisions) {
    // float(TrivialAugmentWide._AUGMENTATION_SPACE[op][0](31, 1, 1)[bin])
    EXPECT_EQ(augment_magnitude(kWideSpace, AugmentOp::shear_x, 0, 31), 0.0);
    EXPECT_EQ(augment_magnitude(kWideSpace, AugmentOp::shear_x, 19, 31), static_cast<double>(0.627000034f));
    EXPECT_EQ(augment_magnitude(kWideSpace, AugmentOp::brightness, 30, 31), static_cast<double>(0.99f));
    EXPECT_EQ(augment_magnitude(kWideSpace, AugmentOp::translate_y, 30, 31), 32.0);
    EXPECT_EQ(augment_magnitude(kWideSpace, AugmentOp::rotate, 10, 31), 45.0);
    EXPECT_EQ(augment_magnitude(kWideSpace, AugmentOp::solarize, 0, 31), 1.0);
    EXPECT_EQ(augment_magnitude(kWideSpace, AugmentOp::solarize, 30, 31), 0.0);
    EXPECT_EQ(augment_magnitude(kWideSpace, AugmentOp::equalize, 30, 31), 0.0);
    constexpr int kBits[] = {8, 8, 8, 7, 7, 7, 7, 7, 6, 6, 6, 6, 6, 5, 5, 5,
                             5, 5, 4, 4, 4, 4, 4, 3, 3, 3, 3, 3, 2, 2, 2};
    for (int bin = 0; bin < 31; ++bin) {
        EXPECT_EQ(augment_magnitude(kWideSpace, AugmentOp::posterize, bin, 31), kBits[bin]) << bin;
    }
}

TEST(Augment, MagnitudesInTheNarrowSpaceAreTorchvisions) {
    constexpr int kBins = 31;
    const AugmentSpace space = augment_space({.height = 224, .width = 300});
    const AugmentOp ops[] = {AugmentOp::shear_y, AugmentOp::translate_x, AugmentOp::translate_y, AugmentOp::rotate,
                             AugmentOp::color,   AugmentOp::posterize,   AugmentOp::solarize};
    const float* wanted = testing::kMagnitudes;
    for (const AugmentOp op : ops) {
        for (int bin = 0; bin < kBins; ++bin, ++wanted) {
            EXPECT_EQ(augment_magnitude(space, op, bin, kBins), static_cast<double>(*wanted))
                << static_cast<int>(op) << ", bin " << bin;
        }
    }
    EXPECT_EQ(wanted, std::end(testing::kMagnitudes));
}

TEST(Augment, OpsAreTheFunctionsTheyName) {
    const Image image = testing::noise(20, 24, 3);
    Image scratch;
    const auto wanted = [&](auto change) {
        Image copy = copy_of(image);
        change(copy.view());
        return copy;
    };
    EXPECT_EQ(difference(augmented(image, AugmentOp::identity, 0), image), 0);
    EXPECT_EQ(difference(augmented(image, AugmentOp::brightness, 0.5),
                         wanted([](ImageView v) { color_jitter(v, {.brightness = 1.5f}); })),
              0);
    EXPECT_EQ(difference(augmented(image, AugmentOp::color, -0.5),
                         wanted([](ImageView v) { color_jitter(v, {.saturation = 0.5f}); })),
              0);
    EXPECT_EQ(difference(augmented(image, AugmentOp::contrast, 0.25),
                         wanted([](ImageView v) { color_jitter(v, {.contrast = 1.25f}); })),
              0);
    EXPECT_EQ(difference(augmented(image, AugmentOp::sharpness, 0.5),
                         wanted([&](ImageView v) { adjust_sharpness(v, 1.5f, scratch); })),
              0);
    EXPECT_EQ(difference(augmented(image, AugmentOp::posterize, 3), wanted([](ImageView v) { posterize(v, 3); })), 0);
    EXPECT_EQ(difference(augmented(image, AugmentOp::solarize, 0.5), wanted([](ImageView v) { solarize(v, 127.5f); })),
              0);
    EXPECT_EQ(difference(augmented(image, AugmentOp::autocontrast, 0), wanted(autocontrast)), 0);
    EXPECT_EQ(difference(augmented(image, AugmentOp::equalize, 0), wanted(equalize)), 0);
    EXPECT_EQ(difference(augmented(image, AugmentOp::invert, 0), wanted(invert)), 0);
    EXPECT_EQ(difference(augmented(image, AugmentOp::rotate, -45),
                         wanted([&](ImageView v) { rotate(v, -45, Interpolation::nearest, {}, scratch); })),
              0);
}

TEST(Augment, ShiftsAndShearsMoveToTheRightAndDown) {
    Image image(9, 9, 1);
    std::memset(image.view().data, 0, image.bytes());
    image.view().row(4)[4] = 255;
    EXPECT_EQ(augmented(image, AugmentOp::translate_x, 2.9).view().row(4)[6], 255);  // whole pixels only
    EXPECT_EQ(augmented(image, AugmentOp::translate_y, -2.0).view().row(2)[4], 255);
    EXPECT_EQ(augmented(image, AugmentOp::shear_x, -0.5).view().row(4)[6], 255);  // torchvision's sign
    EXPECT_EQ(augmented(image, AugmentOp::shear_y, -0.5).view().row(6)[4], 255);
}

TEST(Augment, EveryOpWorksOnTinyAndGrayImages) {
    Image scratch;
    for (const int channels : {1, 3}) {
        for (const int side : {1, 2, 3}) {
            for (std::uint32_t op = 0; op <= kAugmentOps; ++op) {
                for (const int bin : {0, 15, 30}) {
                    const auto which = static_cast<AugmentOp>(op);
                    Image image = testing::noise(side, side + 1, channels);
                    augment(image.view(), {.op = which, .magnitude = augment_magnitude(kWideSpace, which, bin, 31)},
                            scratch);
                    EXPECT_EQ(image.bytes(), static_cast<std::size_t>(side * (side + 1) * channels));
                }
            }
        }
    }
    Image four = testing::noise(4, 4, 4);
    EXPECT_THROW(augment(four.view(), {.op = AugmentOp::color, .magnitude = 0.5}, scratch), DataError);
}

}  // namespace
}  // namespace stoker

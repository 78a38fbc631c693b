// The draws of timm's RandAugment: every op, with timm's levels, both signs and both interpolations.
#include "stoker/ops/timm_rand_augment.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <set>

#include "ops/golden.h"
#include "ops/pixels.h"
#include "ops/support.h"
#include "stoker/ops/photometric.h"

namespace stoker {
namespace {

constexpr ImageSize kSize{.height = 200, .width = 300};

// The magnitudes of each op in many draws.
std::map<AugmentOp, std::set<double>> drawn_magnitudes(const TimmRandAugment& op) {
    std::map<AugmentOp, std::set<double>> found;
    for (std::uint64_t sample = 0; sample < 2000; ++sample) {
        Rng rng({.seed = 4, .sample = sample});
        const AugmentParams params = draw_timm_rand_augment(op, kSize, rng);
        found[params.op].insert(params.magnitude);
    }
    return found;
}

void expect_near(const std::set<double>& found, std::vector<double> wanted) {
    ASSERT_EQ(found.size(), wanted.size());
    std::size_t at = 0;
    for (const double value : found) {
        EXPECT_NEAR(value, wanted[at++], 1e-6);
    }
}

// Each is timm's *_level_to_arg(9) of 10, in the units of AugmentParams.
TEST(TimmRandAugment, LevelsAreTimms) {
    auto found = drawn_magnitudes({.magnitude = 9, .probability = 1});
    EXPECT_EQ(found.size(), 15U);
    expect_near(found[AugmentOp::rotate], {-27, 27});
    expect_near(found[AugmentOp::posterize], {3});
    expect_near(found[AugmentOp::solarize], {230 / 255.0});
    expect_near(found[AugmentOp::solarize_add], {99});
    expect_near(found[AugmentOp::color], {0.72});  // a factor of 1.72
    expect_near(found[AugmentOp::shear_x], {-0.27, 0.27});
    expect_near(found[AugmentOp::shift_x], {-0.405 * 300, 0.405 * 300});
    expect_near(found[AugmentOp::shift_y], {-0.405 * 200, 0.405 * 200});
}

TEST(TimmRandAugment, IncreasingLevelsAreTimms) {
    auto found = drawn_magnitudes({.magnitude = 9, .increasing = true, .probability = 1});
    expect_near(found[AugmentOp::posterize], {1});
    expect_near(found[AugmentOp::solarize], {26 / 255.0});
    expect_near(found[AugmentOp::contrast], {-0.81, 0.81});
    auto most = drawn_magnitudes({.magnitude = 20, .most = 20, .increasing = true, .probability = 1});
    expect_near(most[AugmentOp::brightness], {-0.9, 1.8});  // a factor of 0.1 at least
    expect_near(most[AugmentOp::posterize], {0});
    expect_near(most[AugmentOp::solarize], {0});
    expect_near(most[AugmentOp::solarize_add], {128});
    expect_near(drawn_magnitudes({.magnitude = 20, .probability = 1})[AugmentOp::rotate], {-30, 30});  // `most` is 10
}

TEST(TimmRandAugment, AThresholdOf256ChangesNothing) {
    EXPECT_FALSE(drawn_magnitudes({.magnitude = 10, .probability = 1}).contains(AugmentOp::solarize));
}

TEST(TimmRandAugment, MagnitudesVary) {
    for (const float deviation : {0.5f, 101.0f}) {
        const auto turns =
            drawn_magnitudes({.magnitude = 9, .magnitude_std = deviation, .probability = 1})[AugmentOp::rotate];
        EXPECT_GT(turns.size(), 90U);
        double least = 30;
        double most = 0;
        for (const double turn : turns) {
            least = std::min(least, std::abs(turn));
            most = std::max(most, std::abs(turn));
        }
        EXPECT_LE(most, 30);
        EXPECT_TRUE(deviation > 100 ? least < 3 && most <= 27 : least > 20 && most > 28.5);
    }
}

TEST(TimmRandAugment, AppliesWithItsProbabilityAndBothInterpolations) {
    int applied = 0;
    int bicubic = 0;
    for (std::uint64_t sample = 0; sample < 4000; ++sample) {
        Rng rng({.seed = 9, .sample = sample});
        const AugmentParams params = draw_timm_rand_augment({.magnitude = 5}, kSize, rng);
        applied += params.op != AugmentOp::identity ? 1 : 0;
        bicubic += params.interpolation == Interpolation::bicubic ? 1 : 0;
    }
    EXPECT_NEAR(applied, 2000, 190);
    EXPECT_NEAR(bicubic, 2000, 190);
}

TEST(TimmRandAugment, SolarizeAddIsTimms) {
    Image image(1, 4, 1);
    const std::array<std::uint8_t, 4> before = {0, 127, 128, 255};
    std::copy(before.begin(), before.end(), image.view().row(0));
    solarize_add(image.view(), 110);
    const std::array<std::uint8_t, 4> after = {110, 237, 128, 255};
    EXPECT_TRUE(std::equal(after.begin(), after.end(), image.view().row(0)));
}

TEST(TimmRandAugment, ShiftsAreByFractionsOfPixels) {
    Image scratch;
    Image image = testing::pattern(6, 7, 3);
    const AugmentParams params{
        .op = AugmentOp::shift_x, .magnitude = 1.3, .interpolation = Interpolation::bicubic, .fill = {}};
    augment(image.view(), params, scratch);
    EXPECT_LE(testing::difference(image, testing::kShiftBicubic), 1);
    Image down(4, 1, 1);
    const std::array<std::uint8_t, 4> column = {200, 0, 0, 0};
    std::copy(column.begin(), column.end(), down.view().data);
    augment(down.view(), {.op = AugmentOp::shift_y, .magnitude = 1.5, .interpolation = Interpolation::bilinear},
            scratch);
    EXPECT_EQ(down.view().row(1)[0], 100);
    EXPECT_EQ(down.view().row(2)[0], 100);
}

TEST(TimmRandAugment, EveryOpWorksOnTinyImages) {
    Image scratch;
    for (std::uint64_t sample = 0; sample < 300; ++sample) {
        Rng rng({.seed = 1, .sample = sample});
        Image image = testing::noise(1 + static_cast<int>(sample % 3), 2, sample % 2 == 0 ? 3 : 1);
        const int height = image.height();
        EXPECT_NO_THROW(
            augment(image.view(), draw_timm_rand_augment({.magnitude = 9, .probability = 1}, {1, 2}, rng), scratch));
        EXPECT_EQ(image.height(), height);
    }
}

}  // namespace
}  // namespace stoker

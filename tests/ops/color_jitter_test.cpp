// Colour jitter and grayscale: every kernel set compared with the reference and with torchvision's pixels; the draws.
#include "stoker/ops/color_jitter.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "ops/color_jitter_reference.h"
#include "ops/golden.h"
#include "ops/pixels.h"
#include "ops/support.h"
#include "stoker/base/error.h"
#include "stoker/ops/color_kernels.h"
#include "stoker/ops/grayscale.h"

namespace stoker {

inline void PrintTo(const ColorKernels& kernels, std::ostream* out) {
    *out << kernels.name;
}

namespace {

using testing::copy_of;
using testing::difference;
using testing::pattern;

constexpr auto kAnyOrder = ColorJitterParams{}.order;

class ColorSets : public ::testing::TestWithParam<ColorKernels> {
  protected:
    static Image jittered(const Image& image, const ColorJitterParams& params) {
        Image copy = copy_of(image);
        color_jitter_with(GetParam(), copy.view(), params);
        return copy;
    }
    static Image reference(const Image& image, const ColorJitterParams& params) {
        Image copy = copy_of(image);
        testing::color_jitter_reference(copy.view(), params);
        return copy;
    }
};

TEST_P(ColorSets, MatchTheReferenceForAllFactorsAndSizes) {
    for (const int channels : {1, 3}) {
        for (const int width : {1, 7, 64, 255, 256, 257, 700}) {
            const Image image = testing::noise(3, width, channels, static_cast<std::uint64_t>(width));
            for (const float factor : {0.0f, 0.3f, 0.999f, 1.0f, 1.4f, 2.0f, 1000.0f}) {
                EXPECT_EQ(difference(jittered(image, {.brightness = factor}), reference(image, {.brightness = factor})),
                          0);
                EXPECT_EQ(difference(jittered(image, {.contrast = factor}), reference(image, {.contrast = factor})), 0);
                EXPECT_EQ(difference(jittered(image, {.saturation = factor}), reference(image, {.saturation = factor})),
                          0);
            }
            for (const float turns : {-0.5f, -0.1f, 1e-4f, 0.25f, 1.0f / 3.0f, 0.5f}) {
                EXPECT_LE(difference(jittered(image, {.hue = turns}), reference(image, {.hue = turns})), 1);
            }
        }
    }
}

TEST_P(ColorSets, MatchTheReferenceInEveryOrder) {
    const Image image = testing::noise(31, 33, 3);
    ColorJitterParams params{.brightness = 1.2f, .contrast = 0.7f, .saturation = 1.3f};
    std::sort(params.order.begin(), params.order.end());
    do {
        EXPECT_EQ(difference(jittered(image, params), reference(image, params)), 0);
    } while (std::next_permutation(params.order.begin(), params.order.end()));
}

TEST_P(ColorSets, HaveTheBitsOfThePlainSet) {
    const Image image = testing::noise(100, 101, 3);
    for (std::uint64_t sample = 0; sample < 50; ++sample) {
        Rng rng({.seed = 3, .sample = sample});
        const ColorJitter op{{0.2f, 1.8f}, {0.2f, 1.8f}, {0.2f, 1.8f}, {-0.5f, 0.5f}};
        const ColorJitterParams params = draw_color_jitter(op, rng);
        Image plain = copy_of(image);
        color_jitter_with(kPlainColorKernels, plain.view(), params);
        EXPECT_EQ(difference(jittered(image, params), plain), 0);
    }
}

TEST_P(ColorSets, MatchTorchvision) {
    const Image image = pattern(6, 7, 3);
    EXPECT_EQ(difference(jittered(image, {.brightness = 1.5f}), testing::kBrightness), 0);
    EXPECT_LE(difference(jittered(image, {.contrast = 0.5f}), testing::kContrast), 1);
    EXPECT_LE(difference(jittered(image, {.saturation = 1.75f}), testing::kSaturation), 1);
    EXPECT_LE(difference(jittered(image, {.hue = 0.375f}), testing::kHue), 1);
    const ColorJitterParams all{.order = {Adjust::hue, Adjust::contrast, Adjust::brightness, Adjust::saturation},
                                .brightness = 0.9f,
                                .contrast = 1.4f,
                                .saturation = 1.3f,
                                .hue = -0.2f};
    EXPECT_LE(difference(jittered(image, all), testing::kJitter), 2);
}

TEST_P(ColorSets, DoNotChangePixelsOutsideOfTheView) {
    const Image image = testing::noise(9, 301, 3);
    Image changed = copy_of(image);
    const Box box{2, 5, 4, 290};
    const ColorJitterParams params{.brightness = 0.5f, .contrast = 1.5f, .saturation = 0.1f, .hue = 0.1f};
    color_jitter_with(GetParam(), changed.view().crop(box), params);
    Image part(4, 290, 3);
    copy_pixels(image.view().crop(box), part.view());
    color_jitter_with(GetParam(), part.view(), params);
    Image wanted = copy_of(image);
    copy_pixels(part.view(), wanted.view().crop(box));
    EXPECT_EQ(difference(changed, wanted), 0);
}

INSTANTIATE_TEST_SUITE_P(Sets, ColorSets, ::testing::ValuesIn(color_kernels().begin(), color_kernels().end()),
                         [](const auto& set) { return std::string(set.param.name); });

TEST(ColorJitter, NeutralFactorsChangeNothing) {
    const Image image = testing::noise(8, 8, 3);
    Image same = copy_of(image);
    color_jitter(same.view(), {.order = kAnyOrder});
    EXPECT_EQ(difference(same, image), 0);
    Image gray = testing::noise(8, 8, 1);
    const Image before = copy_of(gray);
    color_jitter(gray.view(), {.saturation = 0, .hue = 0.5f});
    EXPECT_EQ(difference(gray, before), 0);
}

TEST(ColorJitter, DrawsEveryOrderAndTheWholeRange) {
    const ColorJitter op{.brightness = {0.6f, 1.4f}, .contrast = {2, 2}, .hue = {-0.1f, 0.1f}};
    std::set<std::array<Adjust, 4>> orders;
    float least = 2;
    float most = 0;
    for (std::uint64_t sample = 0; sample < 2000; ++sample) {
        Rng rng({.seed = 1, .sample = sample});
        const ColorJitterParams params = draw_color_jitter(op, rng);
        orders.insert(params.order);
        least = std::min(least, params.brightness);
        most = std::max(most, params.brightness);
        ASSERT_EQ(params.contrast, 2.0f);
        ASSERT_EQ(params.saturation, 1.0f);
        ASSERT_LE(std::abs(params.hue), 0.1f);
    }
    EXPECT_EQ(orders.size(), 24u);
    EXPECT_NEAR(least, 0.6f, 0.01f);
    EXPECT_NEAR(most, 1.4f, 0.01f);
}

TEST(ColorJitter, ARangeDoesNotMoveTheDrawsOfOthers) {
    Rng first({.seed = 4});
    Rng second({.seed = 4});
    const ColorJitterParams one = draw_color_jitter({.hue = {-0.1f, 0.1f}}, first);
    const ColorJitterParams two = draw_color_jitter({.brightness = {0, 2}, .hue = {-0.1f, 0.1f}}, second);
    EXPECT_EQ(one.hue, two.hue);
    EXPECT_EQ(one.order, two.order);
}

TEST(ColorJitter, RefusesNonsense) {
    Rng rng({});
    const float nan = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THROW(draw_color_jitter({.brightness = {-0.1f, 1}}, rng), InvalidArgument);
    EXPECT_THROW(draw_color_jitter({.contrast = {1.2f, 1}}, rng), InvalidArgument);
    EXPECT_THROW(draw_color_jitter({.saturation = {1, nan}}, rng), InvalidArgument);
    EXPECT_THROW(draw_color_jitter({.hue = {0, 0.6f}}, rng), InvalidArgument);
    Image four = testing::noise(2, 2, 4);
    EXPECT_THROW(color_jitter(four.view(), {.brightness = 2}), DataError) << "the image's fault";
}

TEST(Grayscale, IsTorchvisionsAndKeepsTheChannels) {
    Image image = pattern(6, 7, 3);
    grayscale(image.view());
    EXPECT_LE(difference(image, testing::kGray), 1);
    for (int i = 0; i < 6 * 7; ++i) {
        EXPECT_EQ(image.view().data[3 * i], image.view().data[3 * i + 1]);
        EXPECT_EQ(image.view().data[3 * i], image.view().data[3 * i + 2]);
    }
    Image gray = testing::noise(3, 3, 1);
    const Image before = copy_of(gray);
    grayscale(gray.view());
    EXPECT_EQ(difference(gray, before), 0);
}

TEST(Grayscale, IsDrawnWithItsProbability) {
    int count = 0;
    for (std::uint64_t sample = 0; sample < 20000; ++sample) {
        Rng rng({.seed = 8, .sample = sample});
        count += draw_random_grayscale({}, rng) ? 1 : 0;
    }
    EXPECT_NEAR(count, 2000, 255);  // six standard deviations
}

}  // namespace
}  // namespace stoker

// Colour steps as draws, compared with the ops that they stand for.
#include "stoker/ops/colors.h"

#include <gtest/gtest.h>

#include <vector>

#include "ops/color_cases.h"
#include "ops/support.h"
#include "stoker/base/error.h"
#include "stoker/ops/grayscale.h"
#include "stoker/ops/random_erasing.h"

namespace stoker {
namespace {

using testing::ColorCase;

std::vector<std::uint8_t> by_the_ops(const ColorCase& of) {
    std::vector<std::uint8_t> images = of.images;
    for (std::size_t i = 0; i < of.draws.size(); ++i) {
        const ImageView image = of.view(images, i);
        color_jitter(image, of.jitters[i]);
        if (of.gray[i]) {
            grayscale(image);
        }
        const OutputDraw& draw = of.draws[i].output;
        random_erasing(image, {.box = draw.erased, .value = of.erased_value, .noise = draw.noise});
    }
    return images;
}

TEST(Colors, AreTheOpsOneAfterTheOther) {
    for (const ColorCase& of : testing::color_cases()) {
        std::vector<std::uint8_t> images = of.images;
        colors(of.batch(of.draws.data(), images.data()));
        EXPECT_EQ(images, by_the_ops(of)) << of.size.height << " x " << of.size.width << " x " << of.channels;
        EXPECT_NE(images, of.images);
    }
}

TEST(Colors, StepsThatChangeNothingAreLeftOut) {
    OutputDraw draw;
    draw.add(ColorJitterParams{});
    EXPECT_EQ(draw.steps, 0);
    draw.add(ColorJitterParams{.brightness = 0.5F, .hue = 0.1F});
    ASSERT_EQ(draw.steps, 2);
    EXPECT_EQ(draw.step[0], ColorStep::scale);
    EXPECT_EQ(draw.factor[0], 0.5F);
    EXPECT_EQ(draw.step[1], ColorStep::hue);
    EXPECT_EQ(draw.factor[1], 0.1F);
}

TEST(Colors, ASixthStepIsRefused) {
    OutputDraw draw;
    draw.add(ColorJitterParams{.brightness = 2, .contrast = 2, .saturation = 2, .hue = 0.1F});
    draw.add(ColorStep::gray);
    EXPECT_EQ(draw.steps, 5);
    EXPECT_THROW(draw.add(ColorStep::gray), InvalidArgument);
    EXPECT_EQ(draw.steps, 5);
}

TEST(Colors, RefusesWhatTheKernelCannotDo) {
    std::uint8_t byte = 0;
    for (const ColorsBatch& batch : {ColorsBatch{.n = 1, .size = {1, 1}, .channels = 4, .images = &byte},
                                     ColorsBatch{.n = 1, .size = {0, 1}, .images = &byte},
                                     ColorsBatch{.n = 1, .size = {4097, 4096}, .images = &byte},
                                     ColorsBatch{.n = -1, .size = {1, 1}, .images = &byte}}) {
        EXPECT_THROW(colors(batch), InvalidArgument);
    }
    EXPECT_NO_THROW(require_colors({.n = 0, .size = {4096, 4096}}));
}

}  // namespace
}  // namespace stoker

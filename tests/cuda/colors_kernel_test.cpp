// colors_cuda.cu on the CPU: the bits of its reference, in every order of blocks and threads.
#include <gtest/gtest.h>

#include <functional>

#include "ops/color_cases.h"
#include "stoker/base/error.h"
#include "stoker/ops/colors_cuda.h"
#include "support/cuda_on_cpu/grid.h"
#include "support/cuda_on_cpu/guarded_array.h"

namespace stoker {
namespace {

using on_cpu::every_order;
using testing::color_case;
using testing::ColorCase;
using testing::GuardedArray;

std::vector<std::uint8_t> reference(const ColorCase& of) {
    std::vector<std::uint8_t> images = of.images;
    colors(of.batch(of.draws.data(), images.data()));
    return images;
}

std::vector<std::uint8_t> kernel(const ColorCase& of) {
    GuardedArray<std::uint8_t> images(of.images);
    GuardedArray<GatherDraw> draws(of.draws);
    colors_cuda(of.batch(draws.data(), images.data()), nullptr);
    return images.values();
}

TEST(ColorsKernel, HasTheBitsOfTheCpu) {
    for (const ColorCase& of : testing::color_cases()) {
        const std::vector<std::uint8_t> expected = reference(of);
        every_order([&] { ASSERT_EQ(kernel(of), expected) << of.size.height << " x " << of.channels; });
    }
}

// All 24-bit colours would take minutes; every level of a channel with a few of the others finds each branch.
TEST(ColorsKernel, TurnsEveryHue) {
    for (const float hue : {-0.5F, -0.17F, 0.01F, 0.3F, 0.5F}) {
        ColorCase of{.size = {256, 49}, .channels = 3, .erased_value = Color{}};
        GatherDraw draw;
        draw.output.add(ColorStep::hue, hue);
        of.draws = {draw};
        for (int level = 0; level < 256; ++level) {
            for (int i = 0; i < 49; ++i) {
                const auto other = [&](int k) { return static_cast<std::uint8_t>(k * 255 / 6); };
                of.images.insert(of.images.end(), {other(i % 7), static_cast<std::uint8_t>(level), other(i / 7)});
            }
        }
        EXPECT_EQ(kernel(of), reference(of)) << hue;
    }
}

// Each planted difference of one parameter shows.
TEST(ColorsKernel, AWrongParameterIsSeen) {
    ColorCase whole = color_case({9, 8}, 3, std::nullopt, 2);
    OutputDraw& good = whole.draws.front().output;
    good.erased = {2, 1, 4, 5};
    ASSERT_EQ(good.step[1], ColorStep::contrast);
    const std::vector<std::uint8_t> expected = reference(whole);
    const std::vector<std::function<void(OutputDraw&)>> plants = {
        [](OutputDraw& draw) { draw.noise ^= 1; },
        [](OutputDraw& draw) { ++draw.erased.left; },
        [](OutputDraw& draw) { --draw.erased.height; },
        [](OutputDraw& draw) { --draw.steps; },
        [](OutputDraw& draw) { draw.factor[0] += 0.1F; },
        [](OutputDraw& draw) { draw.factor[1] += 0.1F; },
        [](OutputDraw& draw) { draw.step[1] = ColorStep::scale; },
        [](OutputDraw& draw) { std::swap(draw.step[0], draw.step[1]); },
    };
    EXPECT_EQ(kernel(whole), expected);
    for (std::size_t i = 0; i < plants.size(); ++i) {
        ColorCase planted = whole;
        plants[i](planted.draws.front().output);
        EXPECT_NE(kernel(planted), expected) << i;
    }
}

TEST(ColorsKernel, RefusesWhatItCannotDo) {
    ColorCase of = color_case({4, 4}, 3, Color{}, 1);
    of.channels = 4;
    EXPECT_THROW(kernel(of), InvalidArgument);
}

}  // namespace
}  // namespace stoker

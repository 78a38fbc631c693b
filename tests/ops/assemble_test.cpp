// assemble against its ops, one after the other on the whole source.
#include "stoker/ops/assemble.h"

#include <gtest/gtest.h>

#include "ops/assemble_cases.h"
#include "stoker/base/error.h"
#include "stoker/ops/flip.h"

namespace stoker {
namespace {

using testing::AssembleCase;
using testing::noise;

TEST(Assemble, EqualsTheOpsOnTheWholeImage) {
    const ImageSize source{37, 51};
    const ImageSize full{20, 29};
    const ImageSize to{11, 13};
    const Image image = noise(source.height, source.width, 3);
    ResizeScratch scratch;
    Image resized(full.height, full.width, 3);
    AssembleCase of{.to = to, .channels = 3, .erased_value = std::nullopt, .draws = {}};
    Rng rng({.seed = 3});
    for (int i = 0; i < 20; ++i) {
        of.add(source, full, i % 2 == 0 ? Interpolation::bilinear : Interpolation::bicubic, rng);
        const AssembleDraw& draw = of.draws.back();
        const ConstImageView window = image.view().crop(draw.window);
        std::byte* at = of.memory.data() + draw.image;
        for (int y = 0; y < window.height; ++y, at += window.row_bytes()) {
            std::memcpy(at, window.row(y), window.row_bytes());
        }
    }
    std::vector<std::uint8_t> out(of.bytes());
    assemble(of.batch(of.memory.data(), of.draws.data(), out.data()));
    for (std::size_t i = 0; i < of.draws.size(); ++i) {
        const AssembleDraw& draw = of.draws[i];
        Image expected(to.height, to.width, 3);
        resize(image.view(), resized.view(), scratch, draw.interpolation);
        copy_pixels(resized.view().crop({draw.top, draw.left, to.height, to.width}), expected.view());
        if (draw.flip_horizontal != 0) {
            horizontal_flip(expected.view());
        }
        if (draw.flip_vertical != 0) {
            vertical_flip(expected.view());
        }
        random_erasing(expected.view(), {.box = draw.output.erased, .value = std::nullopt, .noise = draw.output.noise});
        EXPECT_EQ(std::memcmp(expected.view().data, out.data() + i * expected.bytes(), expected.bytes()), 0) << i;
    }
}

TEST(Assemble, ASampleWithoutAnImageIsBlack) {
    const AssembleCase of = testing::assemble_case({4, 4}, 3, {});
    std::vector<std::uint8_t> out(of.bytes(), 9);
    assemble(of.batch(of.memory.data(), of.draws.data(), out.data()));
    EXPECT_EQ(out, std::vector<std::uint8_t>(of.bytes(), 0));
}

TEST(Assemble, RefusesWhatTheKernelDoes) {
    for (const ImageSize to : {ImageSize{1, kAssembleWidth + 1}, ImageSize{0, 4}, ImageSize{65535 * 8 + 1, 1}}) {
        EXPECT_THROW(assemble({.to = to}), InvalidArgument) << to.height << " x " << to.width;
    }
    EXPECT_THROW(assemble({.channels = 5, .to = {4, 4}}), InvalidArgument);
    EXPECT_NO_THROW(assemble({.to = {1, kAssembleWidth}}));
}

TEST(Assemble, KnowsWhichWeightsFit) {
    const auto fits = [](ImageSize source, ImageSize full, ImageSize to, Interpolation mode = Interpolation::bilinear) {
        return assemble_fits(
            {.source = source, .full = full, .part = {0, 0, to.height, to.width}, .interpolation = mode});
    };
    EXPECT_TRUE(fits({500, 375}, {224, 224}, {224, 224}));
    EXPECT_TRUE(fits({3000, 3000}, {224, 224}, {224, 224}));
    EXPECT_FALSE(fits({3000, 4000}, {224, 224}, {224, 224}));
    EXPECT_FALSE(fits({3000, 3000}, {224, 224}, {224, 224}, Interpolation::bicubic));
    EXPECT_TRUE(fits({1500, 1500}, {224, 224}, {224, 224}, Interpolation::bicubic));
    EXPECT_FALSE(fits({500, 375}, {224, 224}, {224, 224}, Interpolation::lanczos));
    EXPECT_TRUE(fits({3000, 4000}, {3000, 4000}, {224, 224})) << "a crop";
    EXPECT_FALSE(fits({2000, 2000}, {2000, 2000}, {2000, 2000}));
}

}  // namespace
}  // namespace stoker

// Folded ops against op after op: the same bits for any ops, sizes, types and layouts, for raw, encoded and cached
// samples.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "pipeline/transforms/step_by_step.h"
#include "stoker/codecs/encode.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker {
namespace {

using testing::step_by_step;
using testing::stored;

int between(Rng& rng, int low, int high) {
    return low + static_cast<int>(rng.below(static_cast<std::uint32_t>(high - low + 1)));
}

Image noise(int height, int width, int channels, Rng& rng) {
    Image image(height, width, channels);
    std::generate_n(image.view().data, image.bytes(), [&] { return static_cast<std::uint8_t>(rng.next()); });
    return image;
}

Op random_op(Rng& rng) {
    const ImageSize size{between(rng, 1, 70), between(rng, 1, 70)};
    const auto interpolation = static_cast<Interpolation>(rng.below(4));
    switch (rng.below(5)) {
        case 0:
            return Resize{.shorter = size.height, .interpolation = interpolation};
        case 1:
            return Resize{.size = size, .interpolation = interpolation};
        case 2:
            return CenterCrop{size.height, size.width};
        case 3:
            return RandomResizedCrop{.height = size.height,
                                     .width = size.width,
                                     .interpolation = rng.chance(0.5f) ? std::optional(interpolation) : std::nullopt};
        default:
            return HorizontalFlip{0.7f};
    }
}

std::string names(const std::vector<Op>& ops) {
    std::string text;
    for (const Op& op : ops) {
        constexpr const char* kNames[] = {"resize", "center_crop", "random_resized_crop", "flip", "normalize"};
        text += fmt::format(" {}", kNames[op.index()]);
    }
    return text;
}

struct Case {
    Transform transform;
    Sample sample;
    RngKey key;
    DType dtype;
    Layout layout;
};

std::vector<std::byte> slot_of(const Case& c, const Image& expected, bool cached) {
    TransformScratch scratch;
    StageTimes times;
    StageClock clock(times);
    std::vector<std::byte> out(expected.bytes() * item_size(c.dtype));
    const ImageSlot slot{.pixels = {.data = out.data(), .dtype = c.dtype, .layout = c.layout},
                         .channels = expected.channels(),
                         .height = expected.height(),
                         .width = expected.width()};
    if (cached) {
        c.transform.run(c.transform.prepare(c.sample, scratch, clock), c.key, scratch, slot);
    } else {
        c.transform.run(c.sample, c.key, scratch, slot, clock);
    }
    return out;
}

TEST(Fold, GivesTheBitsOfOneOpAfterTheOther) {
    Rng rng({.seed = 21});
    for (int trial = 0; trial < 2000; ++trial) {
        const bool encoded = trial % 4 == 0;
        const Image image = noise(between(rng, 1, 80), between(rng, 1, 80), encoded ? 3 : between(rng, 1, 4), rng);
        std::vector<Op> ops;
        for (std::uint32_t i = rng.below(5); i > 0; --i) {
            ops.push_back(random_op(rng));
        }
        const RngKey key{.seed = 5, .epoch = 1, .sample = static_cast<std::uint64_t>(trial)};
        const Image expected = step_by_step(image.view(), ops, key);
        if (rng.chance(0.5f)) {
            ops.emplace_back(kImageNetNormalize);
        }
        const Normalize last =
            ops.empty() || !std::holds_alternative<Normalize>(ops.back()) ? Normalize{} : kImageNetNormalize;
        constexpr DType kTypes[] = {DType::float32, DType::bfloat16, DType::float16, DType::uint8};
        Case c{.transform = Transform(ops),
               .sample = {},
               .key = key,
               .dtype = kTypes[rng.below(4)],
               .layout = rng.chance(0.5f) ? Layout::chw : Layout::hwc};
        std::vector<std::byte> png;
        if (encoded) {
            png = encode_png(image.view());
        }
        c.sample.encoded = encoded;
        c.sample.bytes =
            encoded ? std::span<const std::byte>(png) : std::as_bytes(std::span(image.view().data, image.bytes()));
        c.sample.height = image.height();
        c.sample.width = image.width();
        c.sample.channels = image.channels();
        const auto want = stored(expected.view(), last, c.dtype, c.layout);
        const std::string text = fmt::format("trial {}: {}x{}x{}{} {}", trial, image.height(), image.width(),
                                             image.channels(), names(ops), dtype_name(c.dtype));
        ASSERT_TRUE(slot_of(c, expected, false) == want) << text;
        ASSERT_TRUE(slot_of(c, expected, true) == want) << text << ", cached";
    }
}

TEST(Fold, UsualPipelinesTakeOneStep) {
    const auto folds = [](ImageSize image, auto... each) {
        Geometry geometry(image);
        return (each(geometry) && ...);
    };
    const auto resize_to = [](int height, int width) {
        return [=](Geometry& geometry) { return geometry.resize({height, width}); };
    };
    const auto crop_to = [](Box box) { return [=](Geometry& geometry) { return geometry.crop(box); }; };
    const auto flip = [](Geometry& geometry) {
        geometry.flip();
        return true;
    };
    EXPECT_TRUE(folds({50, 60}, crop_to({5, 6, 30, 40}), resize_to(22, 22), flip));
    EXPECT_TRUE(folds({50, 60}, resize_to(25, 30), crop_to({1, 4, 20, 22}), flip, crop_to({0, 0, 5, 5})));
    EXPECT_FALSE(folds({50, 60}, resize_to(25, 30), resize_to(20, 20)));
    EXPECT_FALSE(folds({50, 60}, flip, resize_to(20, 20)));
    EXPECT_TRUE(folds({50, 60}, flip, flip, resize_to(20, 20)));
    EXPECT_TRUE(folds({50, 60}, resize_to(25, 30), resize_to(25, 30)));
    EXPECT_FALSE(folds({50, 60}, crop_to({0, 0, 51, 60})));
    EXPECT_FALSE(folds({50, 60}, crop_to({-1, 0, 5, 6})));
    EXPECT_FALSE(folds({50, 60}, crop_to({1, 0, 50, 6})));
    EXPECT_FALSE(folds({50, 60}, crop_to({2147483647, 0, 50, 6})));
}

TEST(Fold, ReadsOnlyWhatThePartNeeds) {
    Geometry geometry({100, 200});
    ASSERT_TRUE(geometry.resize({50, 100}));
    ASSERT_TRUE(geometry.crop({10, 20, 5, 8}));
    // Centres at 21 ... 29 and 41 ... 55, taps 1.5 pixels to both sides of them.
    EXPECT_EQ(geometry.reads(), (Box{19, 39, 12, 18}));
    Geometry cut({100, 200});
    ASSERT_TRUE(cut.crop({10, 20, 30, 40}));
    cut.flip();
    ASSERT_TRUE(cut.crop({1, 3, 5, 6}));
    EXPECT_EQ(cut.reads(), (Box{11, 20 + 40 - 3 - 6, 5, 6})) << "counted from the other side";
}

}  // namespace
}  // namespace stoker

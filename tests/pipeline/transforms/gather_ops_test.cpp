// Ops as the parameters of a gather, compared with the transform bit for bit, for random lists of ops; and which lists
// are refused.
#include "stoker/pipeline/transforms/device_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/gathered_floats.h"
#include "ops/support.h"
#include "stoker/records/stages.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

Op some_crop(Rng& rng, bool resizes) {
    const int height = 5 + static_cast<int>(rng.below(30));
    const int width = 5 + static_cast<int>(rng.below(30));
    if (resizes) {
        const bool cubic = rng.below(2) == 0;
        return RandomResizedCrop{.height = height,
                                 .width = width,
                                 .interpolation = cubic ? Interpolation::bicubic : Interpolation::bilinear};
    }
    const auto mode = static_cast<PaddingMode>(rng.below(4));
    return RandomCrop{.height = height,
                      .width = width,
                      .padding = {1, 4, 3, 2},
                      .pad_if_needed = true,
                      .mode = mode,
                      .fill = {7, 100, 200, 3}};
}

// A list that a gather can do.
std::vector<Op> some_ops(Rng& rng) {
    std::vector<Op> ops;
    const bool resizes = rng.below(2) == 0;
    const auto flips = [&] {
        if (rng.below(2) == 0) {
            ops.emplace_back(HorizontalFlip{});
        }
        if (rng.below(2) == 0) {
            ops.emplace_back(PixelOp(VerticalFlip{}));
        }
    };
    if (rng.below(3) == 0) {
        ops.emplace_back(CenterCrop{.height = 20, .width = 18});
    }
    if (!resizes) {
        flips();
    }
    if (rng.below(4) != 0) {
        ops.push_back(some_crop(rng, resizes));
    }
    flips();
    const ColorJitter jitter{{0.5F, 1.5F}, {0.5F, 1.5F}, {0.5F, 1.5F}, {-0.2F, 0.2F}};
    if (rng.below(3) == 0) {
        ops.emplace_back(PixelOp(jitter));
        flips();
    }
    if (rng.below(3) == 0) {
        ops.emplace_back(PixelOp(RandomGrayscale{.probability = 0.5F}));
    }
    if (rng.below(2) == 0) {
        const bool noise = rng.below(2) == 0;
        ops.emplace_back(PixelOp(RandomErasing{
            .probability = 0.8F, .value = noise ? std::nullopt : std::optional<Color>(Color{1, 2, 3, 4})}));
    }
    ops.emplace_back(kMnistNormalize);
    return ops;
}

TEST(GatherOps, HaveTheBitsOfTheTransform) {
    Rng rng({.seed = 11});
    for (int round = 0; round < 300; ++round) {
        const Transform transform(some_ops(rng));
        const bool colors = output_ops(transform.slice(OpRange::all)).colors;  // of 1 or 3 channels
        const int channels = 1 + static_cast<int>(colors ? 2 * rng.below(2) : rng.below(4));
        const Image stored =
            testing::noise(24 + round % 7, 21 + round % 5, channels, static_cast<std::uint64_t>(round));
        const ConstImageView view = stored.view();
        FieldValue value;
        value.set_raw(std::as_bytes(std::span(view.data, stored.bytes())), view.height, view.width, channels);

        TransformScratch scratch;
        StageTimes times;
        StageClock clock(times);
        const ConstImageView prepared = transform.prepare(value, scratch, clock);
        Image image(prepared.height, prepared.width, channels);
        copy_pixels(prepared, image.view());

        const OpSlice slice = transform.slice(OpRange::remaining);
        ASSERT_FALSE(find_not_gathered(slice));
        const ImageSize size{image.height(), image.width()};
        const GatherPlan plan = gather_plan(slice, size);
        const RngKey key{.seed = 3, .epoch = 2, .sample = static_cast<std::uint64_t>(round)};
        GatherDraw draw = draw_gather(slice, size, key);
        draw.image = 1;

        const std::size_t count = static_cast<std::size_t>(plan.to.height) * static_cast<std::size_t>(plan.to.width) *
                                  static_cast<std::size_t>(channels);
        std::vector<float> expected(count, -2);
        const std::vector<float> own = testing::gathered_floats({.images = image.view().data,
                                                                 .from = size,
                                                                 .channels = channels,
                                                                 .draws = &draw,
                                                                 .n = 1,
                                                                 .to = plan.to,
                                                                 .ops = plan.ops,
                                                                 .factors = transform.factors()});
        transform.run(value, key, scratch,
                      {.pixels = {.data = reinterpret_cast<std::byte*>(expected.data())},
                       .channels = channels,
                       .height = plan.to.height,
                       .width = plan.to.width},
                      clock);
        ASSERT_EQ(own, expected) << round;
    }
}

TEST(GatherOps, OtherListsAreRefusedWithTheReason) {
    const RandomCrop crop{.height = 8, .width = 8};
    const RandomResizedCrop resized{.height = 8, .width = 8};
    const RandomResizedCrop drawn{.height = 8, .width = 8, .interpolation = std::nullopt};
    const RandomResizedCrop lanczos{.height = 8, .width = 8, .interpolation = Interpolation::lanczos};
    const PixelOp erasing = RandomErasing{};
    const PixelOp jitter = ColorJitter{.brightness = {0.5F, 1.5F}};
    const struct {
        std::vector<Op> ops;
        std::size_t op;
        const char* why;
    } cases[] = {
        {{HorizontalFlip{}, PixelOp(GaussianBlur{})}, 1, "changes pixels in a way that is done on the CPU"},
        {{jitter, crop}, 1, "is a crop after a change of colours"},
        {{PixelOp(RandomGrayscale{}), resized}, 1, "is a crop after a change of colours"},
        {{erasing, jitter}, 1, "changes colours after random_erasing"},
        {{jitter, HorizontalFlip{}, jitter}, 2, "is a second color_jitter"},
        {{PixelOp(RandomGrayscale{}), PixelOp(RandomGrayscale{})}, 1, "is a second random_grayscale"},
        {{PixelOp(TrivialAugmentWide{})}, 0, "changes pixels"},
        {{crop, crop}, 1, "is a second crop"},
        {{resized, crop}, 1, "is a second crop"},
        {{drawn}, 0, "draws its interpolation, which is done on the CPU"},
        {{HorizontalFlip{}, lanczos}, 1, "has an interpolation that is done on the CPU"},
        {{HorizontalFlip{}, resized}, 1, "is a random_resized_crop after a flip"},
        {{PixelOp(VerticalFlip{}), resized}, 1, "is a random_resized_crop after a flip"},
        {{erasing, crop}, 1, "is a crop after random_erasing"},
        {{erasing, HorizontalFlip{}}, 1, "is a flip after random_erasing"},
        {{erasing, erasing}, 1, "is a second random_erasing"},
        {{HorizontalFlip{}, Resize{.shorter = 9}}, 1, "is a resize after a random op"},
        {{HorizontalFlip{}, CenterCrop{.height = 8, .width = 8}}, 1, "is a center_crop after a random op"},
    };
    for (const auto& [ops, op, why] : cases) {
        const Transform transform(ops);
        const auto found = find_not_gathered(transform.slice(OpRange::remaining));
        ASSERT_TRUE(found) << why;
        EXPECT_EQ(found->op, op);
        EXPECT_THAT(found->why, HasSubstr(why));
    }
    EXPECT_FALSE(find_not_gathered(Transform().slice(OpRange::remaining)));
}

}  // namespace
}  // namespace stoker

// gather_cuda.cu on the CPU: the bits of its reference, in every order of blocks and threads.
#include <gtest/gtest.h>

#include <functional>

#include "ops/gather_cases.h"
#include "ops/support.h"
#include "stoker/base/error.h"
#include "stoker/ops/gather_cuda.h"
#include "support/cuda_on_cpu/grid.h"
#include "support/cuda_on_cpu/guarded_array.h"

namespace stoker {
namespace {

using on_cpu::every_order;
using testing::gather_case;
using testing::GatherCase;
using testing::GuardedArray;

std::vector<std::uint8_t> images_of(const GatherCase& of) {
    const Image all = testing::noise(testing::kGatherImages * of.from.height, of.from.width, of.channels);
    return {all.view().data, all.view().data + all.bytes()};
}

std::vector<std::byte> reference(const GatherCase& of, const std::vector<std::uint8_t>& images, DType dtype,
                                 Layout layout) {
    std::vector<std::byte> out(of.values() * item_size(dtype));
    gather(of.batch(images.data(), of.draws.data(), out.data(), dtype, layout));
    return out;
}

std::vector<std::byte> kernel(const GatherCase& of, const std::vector<std::uint8_t>& images, DType dtype,
                              Layout layout) {
    GuardedArray<std::uint8_t> pixels(images);
    GuardedArray<GatherDraw> draws(of.draws);
    GuardedArray<std::byte> out(of.values() * item_size(dtype));
    gather_cuda(of.batch(pixels.data(), draws.data(), out.data(), dtype, layout), nullptr);
    return out.values();
}

TEST(GatherKernel, HasTheBitsOfTheCpu) {
    for (const GatherCase& of : testing::gather_cases()) {
        const std::vector<std::uint8_t> images = images_of(of);
        for (const Layout layout : {Layout::chw, Layout::hwc}) {
            const std::vector<std::byte> expected = reference(of, images, DType::float32, layout);
            every_order([&] { ASSERT_EQ(kernel(of, images, DType::float32, layout), expected) << of.describe(); });
        }
    }
}

TEST(GatherKernel, RoundsToTheTypesOf16Bits) {
    for (const bool resizes : {false, true}) {
        const GatherCase of = gather_case({17, 33}, 3, {13, 7}, {.resizes = resizes});
        const std::vector<std::uint8_t> images = images_of(of);
        for (const DType dtype : {DType::float16, DType::bfloat16}) {
            for (const Layout layout : {Layout::chw, Layout::hwc}) {
                EXPECT_EQ(kernel(of, images, dtype, layout), reference(of, images, dtype, layout)) << dtype_name(dtype);
            }
        }
    }
}

// What `colors` follows: not normalised, and nothing erased.
TEST(GatherKernel, GathersBytes) {
    for (const bool resizes : {false, true}) {
        const GatherCase of = gather_case({17, 33}, 3, {13, 7}, {.resizes = resizes, .colors = true});
        GatherCase erases = of;
        erases.ops.colors = false;
        const std::vector<std::uint8_t> images = images_of(of);
        const std::vector<std::byte> expected = reference(of, images, DType::uint8, Layout::hwc);
        EXPECT_EQ(kernel(of, images, DType::uint8, Layout::hwc), expected);
        EXPECT_NE(kernel(erases, images, DType::uint8, Layout::hwc), expected);
    }
}

// Several blocks for each sample, the last of them not full; the most rows and columns, and the most weights.
TEST(GatherKernel, SamplesThatTakeSeveralBlocks) {
    for (const GatherCase& of : {gather_case({40, 50}, 3, {61, 43}, {.mode = PaddingMode::reflect}, 3),
                                 gather_case({260, 250}, 1, {256, 250}, {.resizes = true}, 2),
                                 gather_case({256, 256}, 3, {40, 48}, {.resizes = true}, 2)}) {
        ASSERT_TRUE(gather_fits(of.from, of.to));
        const std::vector<std::uint8_t> images = images_of(of);
        EXPECT_EQ(kernel(of, images, DType::float32, Layout::chw), reference(of, images, DType::float32, Layout::chw))
            << of.describe();
        EXPECT_EQ(kernel(of, images, DType::float32, Layout::hwc), reference(of, images, DType::float32, Layout::hwc))
            << of.describe();
    }
}

// Each planted difference of one parameter shows.
TEST(GatherKernel, AWrongParameterIsSeen) {
    const GatherCase of =
        gather_case({12, 10}, 3, {9, 8}, {.mode = PaddingMode::reflect, .erased_value = std::nullopt}, 4);
    const std::vector<std::uint8_t> images = images_of(of);
    GatherCase whole = of;
    for (GatherDraw& draw : whole.draws) {
        draw.image = 1;
        draw.output.erased = {2, 1, 4, 5};
    }
    const std::vector<std::byte> expected = reference(whole, images, DType::float32, Layout::chw);
    const std::vector<std::function<void(GatherDraw&)>> plants = {
        [](GatherDraw& draw) { draw.image = 2; },
        [](GatherDraw& draw) { draw.output.noise ^= 1; },
        [](GatherDraw& draw) { draw.output.noise ^= std::uint64_t{1} << 40; },
        [](GatherDraw& draw) { ++draw.box.top; },
        [](GatherDraw& draw) { ++draw.box.left; },
        [](GatherDraw& draw) { ++draw.output.erased.left; },
        [](GatherDraw& draw) { --draw.output.erased.height; },
        [](GatherDraw& draw) { draw.flip_horizontal ^= 1; },
        [](GatherDraw& draw) { draw.flip_vertical ^= 1; },
    };
    EXPECT_EQ(kernel(whole, images, DType::float32, Layout::chw), expected);
    for (std::size_t i = 0; i < plants.size(); ++i) {
        GatherCase planted = whole;
        plants[i](planted.draws.back());
        EXPECT_NE(kernel(planted, images, DType::float32, Layout::chw), expected) << i;
    }
}

// A fault that only the host could make: the guards see it.
TEST(GatherKernel, AReadOutsideOfTheImagesIsSeen) {
    GatherCase of = gather_case({64, 64}, 1, {64, 64}, {.resizes = true}, 1);
    const std::vector<std::uint8_t> images = images_of(of);
    of.draws.front() = {.image = testing::kGatherImages + 1, .box = {0, 0, 64, 64}};
    EXPECT_DEATH(kernel(of, images, DType::float32, Layout::chw), "");
}

TEST(GatherKernel, RefusesWhatItCannotDo) {
    const std::vector<std::uint8_t> images(4096);
    const auto message = [&](GatherBatch batch) -> std::string {
        try {
            gather_cuda(batch, nullptr);
        } catch (const InvalidArgument& error) {
            return error.what();
        }
        return "";
    };
    const GatherCase of = gather_case({8, 8}, 1, {8, 8}, {}, 1);
    const GatherBatch good = of.batch(images.data(), of.draws.data(), nullptr, DType::float32, Layout::chw);
    GatherBatch planes = good;
    planes.dtype = DType::uint8;
    EXPECT_NE(message(planes), "");
    GatherBatch channels = good;
    channels.channels = 5;
    EXPECT_NE(message(channels), "");
    GatherBatch large = good;
    large.ops.resizes = true;
    large.to = {400, 400};
    EXPECT_FALSE(gather_fits(large.from, large.to));
    EXPECT_NE(message(large), "");
    EXPECT_FALSE(gather_fits({4000, 4000}, {224, 224}));
    EXPECT_TRUE(gather_fits({32, 32}, {32, 32}));
    EXPECT_TRUE(gather_fits({256, 256}, {224, 224}));
}

}  // namespace
}  // namespace stoker

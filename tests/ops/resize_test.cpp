// Every kernel set compared with the reference, for sizes within and at vector boundaries.
#include "stoker/ops/resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "ops/resize_reference.h"
#include "ops/support.h"
#include "stoker/base/cpu_features.h"
#include "stoker/base/error.h"
#include "stoker/ops/kernels.h"

namespace stoker {
namespace {

using testing::noise;
using testing::resize_reference;

int largest_difference(ConstImageView a, ConstImageView b) {
    int largest = 0;
    for (int y = 0; y < a.height; ++y) {
        for (std::size_t i = 0; i < a.row_bytes(); ++i) {
            largest = std::max(largest, std::abs(a.row(y)[i] - b.row(y)[i]));
        }
    }
    return largest;
}

class ResizeKernels : public ::testing::TestWithParam<OpKernels> {
  protected:
    void run(ConstImageView from, ImageView to, Interpolation interpolation = Interpolation::bilinear) {
        resize_with(GetParam(), from, {to.height, to.width}, {0, 0, to.height, to.width}, to, scratch_, interpolation);
    }
    ResizeScratch scratch_;
};

TEST_P(ResizeKernels, GiveTheBitsOfTheReferenceAtEverySize) {
    Rng rng({.seed = 3});
    const auto size = [&] { return 1 + static_cast<int>(rng.below(70)); };
    for (int trial = 0; trial < 300; ++trial) {
        const int channels = 1 + trial % 4;
        const Image from = noise(size(), size(), channels, static_cast<std::uint64_t>(trial));
        Image to(size(), size(), channels);
        Image expected(to.height(), to.width(), channels);
        const auto interpolation = static_cast<Interpolation>(trial / 4 % 4);
        run(from.view(), to.view(), interpolation);
        resize_reference(from.view(), expected.view(), interpolation);
        ASSERT_EQ(largest_difference(to.view(), expected.view()), 0)
            << from.height() << "x" << from.width() << "x" << channels << " to " << to.height() << "x" << to.width()
            << ", interpolation " << trial / 4 % 4;
    }
}

TEST_P(ResizeKernels, GiveTheBitsOfTheReferenceAtExtremeRatios) {
    const struct {
        int height, width, new_height, new_width;
    } cases[] = {{1, 1, 90, 70}, {900, 3, 1, 5}, {3, 900, 5, 1}, {2, 700, 300, 2}, {17, 16, 16, 17}, {400, 400, 1, 1}};
    for (const auto& [height, width, new_height, new_width] : cases) {
        const Image from = noise(height, width, 3);
        Image to(new_height, new_width, 3);
        Image expected(new_height, new_width, 3);
        run(from.view(), to.view());
        resize_reference(from.view(), expected.view());
        EXPECT_EQ(largest_difference(to.view(), expected.view()), 0) << height << "x" << width;
    }
}

TEST_P(ResizeKernels, GiveTheBitsOfThePlainSet) {
    const Image from = noise(123, 187, 3);
    ResizeScratch scratch;
    for (const auto& [height, width] : {ImageSize{64, 64}, ImageSize{31, 300}, ImageSize{224, 33}}) {
        Image to(height, width, 3);
        Image expected(height, width, 3);
        run(from.view(), to.view());
        resize_with(kPlainKernels, from.view(), {height, width}, {0, 0, height, width}, expected.view(), scratch);
        EXPECT_EQ(largest_difference(to.view(), expected.view()), 0) << height << "x" << width;
    }
}

TEST_P(ResizeKernels, KeepConstantsExactly) {
    for (const int value : {0, 1, 127, 128, 254, 255}) {
        for (const auto& [height, width] : {ImageSize{7, 61}, ImageSize{40, 40}, ImageSize{1, 1}, ImageSize{97, 5}}) {
            Image from(41, 53, 3);
            std::fill_n(from.view().data, from.bytes(), static_cast<std::uint8_t>(value));
            Image to(height, width, 3);
            run(from.view(), to.view());
            const std::uint8_t* data = to.view().data;
            EXPECT_TRUE(std::all_of(data, data + to.bytes(), [&](std::uint8_t x) { return x == value; })) << value;
        }
    }
}

// The filters with negative weights leave 0 to 255 at edges, in both directions.
TEST_P(ResizeKernels, ClipBehindEachPass) {
    Image from(24, 20, 3);
    for (int y = 0; y < from.height(); ++y) {
        for (int i = 0; i < 60; ++i) {
            from.view().row(y)[i] = (y / 6 + i / 15) % 2 == 0 ? 255 : 0;
        }
    }
    for (const Interpolation interpolation : {Interpolation::bicubic, Interpolation::lanczos}) {
        Image to(61, 57, 3);
        Image expected(61, 57, 3);
        run(from.view(), to.view(), interpolation);
        resize_reference(from.view(), expected.view(), interpolation);
        EXPECT_EQ(largest_difference(to.view(), expected.view()), 0);
    }
}

TEST_P(ResizeKernels, APartIsACutFromTheWhole) {
    const Image from = noise(61, 83, 3);
    Rng rng({.seed = 5});
    for (const ImageSize full : {ImageSize{40, 55}, ImageSize{61, 30}, ImageSize{90, 83}, ImageSize{61, 83}}) {
        Image whole(full.height, full.width, 3);
        run(from.view(), whole.view());
        for (int trial = 0; trial < 40; ++trial) {
            Box part;
            part.height = 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(full.height)));
            part.width = 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(full.width)));
            part.top = static_cast<int>(rng.below(static_cast<std::uint32_t>(full.height - part.height + 1)));
            part.left = static_cast<int>(rng.below(static_cast<std::uint32_t>(full.width - part.width + 1)));
            Image to(part.height, part.width, 3);
            resize_with(GetParam(), from.view(), full, part, to.view(), scratch_);
            ASSERT_EQ(largest_difference(to.view(), whole.view().crop(part)), 0);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Sets, ResizeKernels, ::testing::ValuesIn(op_kernels().begin(), op_kernels().end()),
                         [](const auto& set) { return std::string(set.param.name); });

TEST(Kernels, AllSetsOfThisProcessorAreThere) {
    std::size_t expected = 1;
    expected += cpu_features().avx2 ? 1 : 0;
    expected += cpu_features().avx512 ? 1 : 0;
#if defined(__x86_64__)
    expected += cpu_features().avx512 && has_vnni() ? 1 : 0;
#endif
    EXPECT_EQ(op_kernels().size(), expected);
    EXPECT_EQ(std::string(op_kernels().front().name), "plain");
    EXPECT_EQ(best_kernels().name, op_kernels().back().name);
}

TEST(Resize, ReadsAndWritesViewsWithPaddedRows) {
    const Image from = noise(50, 60, 3);
    const Box box{7, 9, 33, 41};
    Image cut(box.height, box.width, 3);
    copy_pixels(from.view().crop(box), cut.view());
    Image expected(20, 22, 3);
    Image canvas(30, 40, 3);
    std::fill_n(canvas.view().data, canvas.bytes(), std::uint8_t{77});
    ResizeScratch scratch;
    resize(cut.view(), expected.view(), scratch);
    resize(from.view().crop(box), canvas.view().crop({4, 5, 20, 22}), scratch);
    EXPECT_EQ(largest_difference(canvas.view().crop({4, 5, 20, 22}), expected.view()), 0);
    for (int y = 0; y < 30; ++y) {
        for (int x = 0; x < 40; ++x) {
            if (y < 4 || y >= 24 || x < 5 || x >= 27) {
                ASSERT_EQ(canvas.view().row(y)[x * 3], 77) << y << " " << x;
            }
        }
    }
}

TEST(Resize, GivesPillowsValues) {
    // Image.resize(size, ...), one axis at a time.
    constexpr auto kBilinear = Interpolation::bilinear;
    constexpr auto kBicubic = Interpolation::bicubic;
    constexpr auto kLanczos = Interpolation::lanczos;
    constexpr auto kNearest = Interpolation::nearest;
    const struct {
        int height, width, new_height, new_width;
        Interpolation interpolation;
        std::vector<int> expected;
    } cases[] = {
        {5, 7, 3, 4, kBilinear, {68, 149, 123, 117, 103, 124, 107, 93, 146, 149, 141, 77}},
        {9, 4, 2, 11, kBilinear, {79, 81, 99,  117, 134, 151, 167, 155, 126, 96,  92,
                                  73, 78, 114, 150, 171, 165, 159, 156, 153, 149, 149}},
        {3, 3, 5, 2, kBilinear, {34, 148, 52, 174, 78, 213, 91, 142, 99, 95}},
        {5, 7, 3, 4, kBicubic, {63, 152, 121, 119, 102, 128, 105, 92, 149, 150, 142, 72}},
        {9, 4, 2, 11, kBicubic, {74, 79, 95,  117, 138, 162, 176, 161, 123, 92,  81,
                                 65, 78, 111, 155, 176, 171, 159, 154, 153, 153, 152}},
        {3, 3, 5, 2, kBicubic, {25, 149, 42, 183, 70, 220, 89, 140, 99, 83}},
        {5, 7, 3, 4, kLanczos, {67, 151, 118, 124, 103, 134, 102, 94, 151, 154, 137, 71}},
        {9, 4, 2, 11, kLanczos, {74, 80, 92,  113, 145, 175, 182, 160, 122, 91,  74,
                                 64, 81, 113, 154, 179, 179, 160, 149, 151, 155, 153}},
        {3, 3, 5, 2, kLanczos, {21, 145, 36, 192, 67, 223, 89, 140, 96, 72}},
        {5, 7, 3, 4, kNearest, {0, 182, 108, 34, 148, 142, 136, 130, 80, 142, 204, 10}},
        {9, 4, 2, 11, kNearest, {148, 148, 148, 17,  17,  142, 142, 142, 11,  11,  11,
                                 52,  52,  52,  245, 245, 182, 182, 182, 119, 119, 119}},
        {3, 3, 5, 2, kNearest, {0, 182, 0, 182, 37, 253, 148, 142, 148, 142}},
    };
    for (const auto& [height, width, new_height, new_width, interpolation, expected] : cases) {
        Image from(height, width, 1);
        for (int y = 0; y < height; ++y) {
            for (int x = 0; x < width; ++x) {
                from.view().row(y)[x] = static_cast<std::uint8_t>(37 * y * y + 91 * x + 17 * x * y);
            }
        }
        Image to(new_height, new_width, 1);
        ResizeScratch scratch;
        resize(from.view(), to.view(), scratch, interpolation);
        const std::uint8_t* data = to.view().data;
        EXPECT_EQ(std::vector<int>(data, data + to.bytes()), expected)
            << height << "x" << width << ", interpolation " << static_cast<int>(interpolation);
    }
}

TEST(Resize, HalvingARampMatchesValuesWorkedOutByHand) {
    // 4 to 2: centres 1 and 3, triangle of half-width 2: weights (3, 3, 1) / 7, and mirrored.
    Image from(1, 4, 1);
    const std::uint8_t ramp[] = {0, 70, 140, 210};
    std::copy_n(ramp, 4, from.view().data);
    Image to(1, 2, 1);
    ResizeScratch scratch;
    resize(from.view(), to.view(), scratch);
    EXPECT_EQ(to.view().data[0], 50);
    EXPECT_EQ(to.view().data[1], 160);
}

TEST(Resize, RefusesShapesThatDoNotFit) {
    const Image from = noise(8, 8, 3);
    Image grey(4, 4, 1);
    Image empty(0, 4, 3);
    Image to(4, 4, 3);
    ResizeScratch scratch;
    EXPECT_THROW(resize(from.view(), grey.view(), scratch), InvalidArgument);
    EXPECT_THROW(resize(from.view(), empty.view(), scratch), InvalidArgument);
    for (const Box& part : {Box{3, 0, 4, 4}, Box{0, -1, 4, 4}, Box{0, 0, 4, 5}}) {
        EXPECT_THROW(resize_with(best_kernels(), from.view(), {6, 6}, part, to.view(), scratch), InvalidArgument);
    }
}

// After an exception, a worker continues with the next sample: a half-built filter must not be reused.
TEST(ResizeAxis, IsRebuiltAfterAFailure) {
    ResizeAxis axis;
    axis.build(20, 5, 0, 5);
    ASSERT_THROW(axis.build(10, 5, 0, -1), std::length_error);  // like a failed allocation
    axis.build(10, 5, 0, 5);
    ResizeAxis fresh;
    fresh.build(10, 5, 0, 5);
    EXPECT_EQ(axis.stride, fresh.stride);
    EXPECT_EQ(axis.inputs(), fresh.inputs());
}

// No pictures: a small file of a bitmap may have such sides, and the filter or a few rows would take gigabytes.
TEST(ResizeAxis, SidesWithoutBoundsAreBadSamples) {
    ResizeAxis axis;
    EXPECT_THROW(axis.build(1 << 28, 224, 0, 224), DataError);
    axis.build(20, 5, 0, 5);
    const Image wide(1, (64 << 20) + 1, 1);
    Image small(8, 8, 1);
    ResizeScratch scratch;
    EXPECT_THROW(resize(wide.view(), small.view(), scratch), DataError);
}

TEST(ResizedSize, IsTorchvisions) {
    const struct {
        int height, width, size;
        ImageSize expected;
    } cases[] = {
        {375, 500, 256, {256, 341}}, {500, 375, 256, {341, 256}}, {333, 500, 256, {256, 384}},
        {1, 7, 3, {3, 21}},          {28, 28, 32, {32, 32}},      {500, 499, 224, {224, 224}},
        {101, 100, 33, {33, 33}},    {427, 640, 232, {232, 347}}, {640, 427, 232, {347, 232}},
        {3, 1000, 7, {7, 2333}},     {77, 78, 13, {13, 13}},      {1200, 900, 224, {298, 224}},
    };
    for (const auto& [height, width, size, expected] : cases) {
        EXPECT_EQ(resized_size(height, width, size), expected) << height << "x" << width << " to " << size;
    }
    EXPECT_THROW(resized_size(0, 5, 3), InvalidArgument);
    EXPECT_THROW(resized_size(1, 2000000000, 224), DataError);
}

}  // namespace
}  // namespace stoker

// Strong shrinks by every kernel set give the bits of the plain set, which resize_test compares with the reference: for
// noise, and for pixels that make sums as large as they can be.
#include "stoker/ops/shrink_rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "ops/support.h"

namespace stoker {
namespace {

using testing::noise;

class Shrink : public ::testing::TestWithParam<OpKernels> {
  protected:
    // Describes the first difference; empty if there is none.
    std::string difference(const Image& from, ImageSize full, const Box& part) {
        Image expected(part.height, part.width, 3);
        Image got(part.height, part.width, 3);
        resize_with(kPlainKernels, from.view(), full, part, expected.view(), plain_);
        resize_with(GetParam(), from.view(), full, part, got.view(), scratch_);
        const std::uint8_t* end = expected.view().data + expected.bytes();
        const auto [a, b] = std::mismatch(std::as_const(expected).view().data, end, std::as_const(got).view().data);
        return a == end ? ""
                        : fmt::format("{} x {} to {} x {}, value {}: {} and not {}", from.height(), from.width(),
                                      full.height, full.width, a - expected.view().data, *b, *a);
    }

    ResizeScratch plain_;
    ResizeScratch scratch_;
};

TEST_P(Shrink, GivesTheBitsOfThePlainSet) {
    Rng rng({.seed = 21});
    for (int trial = 0; trial < 150; ++trial) {
        const ImageSize full{2 + static_cast<int>(rng.below(30)), 2 + static_cast<int>(rng.below(70))};
        const int wide = full.width * (3 + static_cast<int>(rng.below(32))) + static_cast<int>(rng.below(9));
        const int high = 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(full.height * 20)));
        Image from = noise(high, wide, 3, static_cast<std::uint64_t>(trial));
        if (trial % 3 == 0) {  // the largest sums
            std::for_each_n(from.view().data, from.bytes(),
                            [&](std::uint8_t& pixel) { pixel = trial % 2 == 0 || pixel < 128 ? 255 : 0; });
        }
        Box part{0, 0, full.height, full.width};
        if (trial % 4 == 0) {
            part = {full.height / 3, full.width / 4, full.height - full.height / 3, full.width - full.width / 3};
        }
        ASSERT_EQ(difference(from, full, part), "") << trial;
    }
}

// So that the test above compares two things.
TEST(ShrinksMuch, IsForBilinearPicturesOfThreeChannels) {
    const ResizeGeometry big{.source = {3000, 4000}, .full = {224, 224}, .part = {0, 0, 224, 224}};
    EXPECT_TRUE(shrinks_much(big, 3));
    EXPECT_FALSE(shrinks_much(big, 4));
    EXPECT_FALSE(shrinks_much({{3000, 600}, {224, 224}, {0, 0, 224, 224}}, 3));
    EXPECT_FALSE(shrinks_much({{224, 4000}, {224, 224}, {0, 0, 224, 224}}, 3));
    EXPECT_FALSE(shrinks_much({{3000, 4000}, {224, 224}, {0, 0, 224, 224}, false, Interpolation::bicubic}, 3));
    for (const OpKernels& kernels : op_kernels()) {
        EXPECT_EQ(kernels.shrink != nullptr, std::string(kernels.name) != "plain");
    }
}

INSTANTIATE_TEST_SUITE_P(Sets, Shrink, ::testing::ValuesIn(op_kernels().begin(), op_kernels().end()),
                         [](const auto& set) { return std::string(set.param.name); });

}  // namespace
}  // namespace stoker

// Every kernel set compared with the reference, for all channels, both layouts and odd widths.
#include "stoker/ops/normalize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/normalize_reference.h"
#include "ops/support.h"
#include "stoker/base/error.h"
#include "stoker/ops/kernels.h"

namespace stoker {
namespace {

using testing::normalize_reference;
using testing::normalize_with;

constexpr Normalize kOp{{0.485f, 0.456f, 0.406f, 0.5f}, {0.229f, 0.224f, 0.225f, 0.25f}};

class NormalizeKernels : public ::testing::TestWithParam<OpKernels> {};

TEST_P(NormalizeKernels, AgreeWithTheReference) {
    for (int channels = 1; channels <= 4; ++channels) {
        for (const int width : {1, 2, 7, 15, 16, 17, 28, 31, 32, 33, 63, 64, 65, 224}) {
            for (const Layout layout : {Layout::chw, Layout::hwc}) {
                const Image image = testing::noise(5, width, channels);
                const std::size_t values = image.bytes();
                std::vector<float> out(values + 1, -99.0f);
                std::vector<float> expected(values);
                normalize_with(GetParam(), image.view(), kOp, layout, out.data());
                normalize_reference(image.view(), kOp, layout, expected.data());
                for (std::size_t i = 0; i < values; ++i) {
                    ASSERT_NEAR(out[i], expected[i], 1e-6f) << width << "x" << channels << " at " << i;
                }
                ASSERT_EQ(out[values], -99.0f);
            }
        }
    }
}

TEST_P(NormalizeKernels, GiveTheBitsOfThePlainSet) {
    const Image image = testing::noise(28, 67, 3);
    for (const Layout layout : {Layout::chw, Layout::hwc}) {
        std::vector<float> out(image.bytes());
        std::vector<float> expected(image.bytes());
        normalize_with(GetParam(), image.view(), kOp, layout, out.data());
        normalize_with(kPlainKernels, image.view(), kOp, layout, expected.data());
        EXPECT_EQ(out, expected);
    }
}

TEST_P(NormalizeKernels, ReadViewsWithPaddedRows) {
    const Image canvas = testing::noise(20, 41, 3);
    const ConstImageView view = canvas.view().crop({3, 5, 11, 23});
    for (const Layout layout : {Layout::chw, Layout::hwc}) {
        std::vector<float> out(11 * 23 * 3);
        std::vector<float> expected(out.size());
        normalize_with(GetParam(), view, kOp, layout, out.data());
        normalize_reference(view, kOp, layout, expected.data());
        for (std::size_t i = 0; i < out.size(); ++i) {
            ASSERT_NEAR(out[i], expected[i], 1e-6f) << i;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Sets, NormalizeKernels, ::testing::ValuesIn(op_kernels().begin(), op_kernels().end()),
                         [](const auto& set) { return std::string(set.param.name); });

TEST(Normalize, DefaultLeavesPixelsBetweenZeroAndOne) {
    Image image(1, 3, 1);
    image.view().data[0] = 0;
    image.view().data[1] = 51;
    image.view().data[2] = 255;
    float out[3];
    normalize_with(best_kernels(), image.view(), {}, Layout::chw, out);
    EXPECT_EQ(out[0], 0.0f);
    EXPECT_FLOAT_EQ(out[1], 0.2f);
    EXPECT_FLOAT_EQ(out[2], 1.0f);
}

TEST(Normalize, RefusesNonsense) {
    EXPECT_THROW(normalize_factors({.std = {1, 0, 1, 1}}), InvalidArgument);
    EXPECT_THROW(normalize_factors({.std = {-1, 1, 1, 1}}), InvalidArgument);
    EXPECT_THROW(normalize_factors({.mean = {std::numeric_limits<float>::quiet_NaN(), 0, 0, 0}}), InvalidArgument);
}

}  // namespace
}  // namespace stoker

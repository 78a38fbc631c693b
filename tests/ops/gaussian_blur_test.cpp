// The blur against torchvision's pixels and a slow reference, for every kernel; all kernels return the same bits.
#include "stoker/ops/gaussian_blur.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/golden.h"
#include "ops/pixels.h"
#include "ops/support.h"
#include "stoker/base/error.h"
#include "stoker/ops/blur_row.h"

namespace stoker {
namespace {

using testing::copy_of;
using testing::difference;

Image blurred(const Image& image, const BlurParams& params, const BlurKernel& kernel = blur_kernels().back()) {
    Image scratch;
    Image copy = copy_of(image);
    gaussian_blur_with(kernel, copy.view(), params, scratch);
    return copy;
}

double weight(int distance, float sigma) {
    return std::exp(-0.5 * distance * distance / (static_cast<double>(sigma) * static_cast<double>(sigma)));
}

int mirrored(int position, int length) {
    return position < 0 ? -position : position >= length ? 2 * length - 2 - position : position;
}

// The exact value of one channel of a pixel.
double exact(const Image& image, const BlurParams& params, int y, int x, int c) {
    double sum = 0;
    double weights = 0;
    for (int dy = -params.height / 2; dy <= params.height / 2; ++dy) {
        for (int dx = -params.width / 2; dx <= params.width / 2; ++dx) {
            const double w = weight(dy, params.sigma) * weight(dx, params.sigma);
            const int column = mirrored(x + dx, image.width());
            sum += w * image.view().row(mirrored(y + dy, image.height()))[column * image.channels() + c];
            weights += w;
        }
    }
    return sum / weights;
}

TEST(GaussianBlur, IsTorchvisions) {
    EXPECT_LE(difference(blurred(testing::pattern(6, 7, 3), {.width = 5, .height = 3, .sigma = 1.3f}), testing::kBlur),
              1);
}

TEST(GaussianBlur, IsTheWeightedMean) {
    for (int channels = 1; channels <= 4; ++channels) {
        const Image image = testing::noise(14, 13, channels);
        for (const BlurParams params : {BlurParams{3, 3, 0.4f}, BlurParams{7, 1, 2}, BlurParams{1, 5, 1},
                                        BlurParams{25, 27, 6}, BlurParams{3, 9, 1e-3f}}) {
            const Image out = blurred(image, params);
            for (int y = 0; y < 14; ++y) {
                for (int x = 0; x < 13; ++x) {
                    for (int c = 0; c < channels; ++c) {
                        ASSERT_NEAR(out.view().row(y)[x * channels + c], exact(image, params, y, x, c), 0.5001);
                    }
                }
            }
        }
    }
}

TEST(GaussianBlur, EveryKernelReturnsTheSameBits) {
    EXPECT_STREQ(blur_kernels().front().name, "plain");
    for (const int width : {1, 12, 400, 1100}) {  // also more values than a block
        const Image image = testing::noise(9, width, 3);
        const BlurParams params{.width = width > 1 ? 23 / (width < 20 ? 3 : 1) : 1, .height = 17, .sigma = 3};
        const Image wanted = blurred(image, params, kPlainBlurKernel);
        for (const BlurKernel& kernel : blur_kernels()) {
            EXPECT_EQ(difference(blurred(image, params, kernel), wanted), 0) << kernel.name << ", width " << width;
        }
    }
}

TEST(GaussianBlur, FlatImagesStayAndViewsKeepTheirSurroundings) {
    Image flat(40, 40, 3);
    std::fill_n(flat.view().data, flat.bytes(), std::uint8_t{255});
    EXPECT_EQ(difference(blurred(flat, {.width = 23, .height = 23, .sigma = 2}), flat), 0);
    const Image image = testing::noise(20, 30, 3);
    Image within = copy_of(image);
    Image scratch;
    const Box box{3, 4, 11, 13};
    Image part(box.height, box.width, 3);
    copy_pixels(image.view().crop(box), part.view());
    gaussian_blur(within.view().crop(box), {.width = 5, .height = 5, .sigma = 1}, scratch);
    Image wanted = copy_of(image);
    copy_pixels(blurred(part, {.width = 5, .height = 5, .sigma = 1}).view(), wanted.view().crop(box));
    EXPECT_EQ(difference(within, wanted), 0);
}

TEST(GaussianBlur, DrawsTheRangeAndRefusesNonsense) {
    Rng rng({.seed = 1});
    float least = 9;
    float most = 0;
    for (int i = 0; i < 1000; ++i) {
        const BlurParams params = draw_gaussian_blur({.width = 5, .height = 7, .sigma_low = 0.5f}, rng);
        EXPECT_EQ(params.width, 5);
        EXPECT_EQ(params.height, 7);
        least = std::min(least, params.sigma);
        most = std::max(most, params.sigma);
    }
    EXPECT_NEAR(least, 0.5, 0.02);
    EXPECT_NEAR(most, 2, 0.02);
    EXPECT_THROW(draw_gaussian_blur({.sigma_low = 0}, rng), InvalidArgument);
    EXPECT_THROW(draw_gaussian_blur({.sigma_low = 3}, rng), InvalidArgument);
    const Image image = testing::noise(5, 6, 3);
    EXPECT_THROW(blurred(image, {.width = 4}), InvalidArgument);
    EXPECT_THROW(blurred(image, {.width = kMaxBlurKernel + 2}), InvalidArgument);
    EXPECT_THROW(blurred(image, {.height = 11}), DataError);
    EXPECT_EQ(blurred(image, {.width = 11, .height = 9}).bytes(), image.bytes());
}

}  // namespace
}  // namespace stoker

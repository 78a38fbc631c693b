// Each op of the policies on planes against the op on bytes, for values that both hold exactly.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/pixels.h"
#include "ops/support.h"
#include "stoker/base/error.h"
#include "stoker/ops/augment.h"
#include "stoker/ops/plane_ops.h"

namespace stoker {
namespace {

using testing::copy_of;

// Pixel values from `low` on, smooth, so that interpolated ones are near in both.
Image waves(int height, int width, int channels) {
    Image image;
    image.reset(height, width, channels);
    for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width * channels; ++x) {
            image.view().row(y)[x] = static_cast<std::uint8_t>(128 + 100 * std::sin(0.2 * y + 0.11 * x));
        }
    }
    return image;
}

PlanesView planes_of(ConstImageView image, float unit, Planes& planes) {
    const PlanesView out = planes.reset(image.channels, image.height, image.width);
    for (int c = 0; c < image.channels; ++c) {
        for (int y = 0; y < image.height; ++y) {
            for (int x = 0; x < image.width; ++x) {
                out.plane(c).row(y)[x] = static_cast<float>(image.row(y)[x * image.channels + c]) * unit;
            }
        }
    }
    return out;
}

// The share of values that differ by more than `levels` of 255.
double differing(ConstImageView bytes, ConstPlanesView planes, float unit, float levels) {
    std::int64_t count = 0;
    for (int c = 0; c < bytes.channels; ++c) {
        for (int y = 0; y < bytes.height; ++y) {
            for (int x = 0; x < bytes.width; ++x) {
                const auto value = static_cast<float>(bytes.row(y)[x * bytes.channels + c]);
                count += std::abs(planes.plane(c).row(y)[x] / unit - value) > levels ? 1 : 0;
            }
        }
    }
    return static_cast<double>(count) / (static_cast<double>(bytes.height) * bytes.width * bytes.channels);
}

double magnitude_of(AugmentOp op) {
    switch (op) {
        case AugmentOp::translate_x:
        case AugmentOp::translate_y:
        case AugmentOp::shift_x:
        case AugmentOp::shift_y:
            return 3.6;
        case AugmentOp::rotate:
            return 25;
        case AugmentOp::posterize:
            return 3;
        case AugmentOp::solarize_add:
            return 60;
        default:
            return 0.4;
    }
}

TEST(PlanePhotometric, EveryOpIsThatOfBytes) {
    for (const auto& values : {PlaneValues{.top = 65535, .low = 0, .high = 65535}, PlaneValues{}}) {
        const float unit = values.top / 255;
        for (int number = 0; number <= static_cast<int>(AugmentOp::shift_y); ++number) {
            for (const double sign : {1.0, -1.0}) {
                for (const int channels : {1, 3}) {
                    const auto op = static_cast<AugmentOp>(number);
                    const bool two_signs = op <= AugmentOp::sharpness || op >= AugmentOp::shift_x;
                    const AugmentParams params{.op = op, .magnitude = (two_signs ? sign : 1) * magnitude_of(op)};
                    const Image image = waves(40, 33, channels);
                    Image bytes = copy_of(image);
                    Image scratch;
                    augment(bytes.view(), params, scratch);
                    Planes memory;
                    Planes copy;
                    const PlanesView planes = planes_of(image.view(), unit, memory);
                    augment_planes(planes, params, values, copy);
                    // A nearest position between two pixels may fall to either; a step of equalize is 1/256.
                    EXPECT_LE(differing(bytes.view(), planes, unit, 2.1f), 0.02) << number << " " << sign;
                    if (op != AugmentOp::identity && !(channels == 1 && op == AugmentOp::color)) {
                        EXPECT_GT(differing(image.view(), planes, unit, 0.5f), 0.05) << number;
                    }
                }
            }
        }
    }
}

TEST(PlanePhotometric, ImpossibleParametersAndChannels) {
    Planes memory;
    Planes copy;
    const PlanesView two = planes_of(waves(5, 5, 2).view(), 1, memory);
    EXPECT_THROW(augment_planes(two, {.op = AugmentOp::rotate, .magnitude = 9}, {}, copy), DataError);
    EXPECT_THROW(photometric_planes(two, {.kind = Photometric::autocontrast}, {}, copy), DataError);
    EXPECT_THROW(photometric_planes(two, {.kind = Photometric::posterize, .amount = 40}, {}, copy), InvalidArgument);
    EXPECT_THROW(photometric_planes(two, {.kind = Photometric::solarize, .amount = 300}, {}, copy), InvalidArgument);
    EXPECT_THROW(photometric_planes(two, {.kind = Photometric::sharpness, .amount = -1}, {}, copy), InvalidArgument);
    photometric_planes(two, {.kind = Photometric::posterize, .amount = 2}, {.top = 255, .low = 0, .high = 255}, copy);
    EXPECT_EQ(std::fmod(two.plane(1).row(2)[3], 64.0f), 0);
}

}  // namespace
}  // namespace stoker

// The pixel ops compared with torchvision's pixels, and cases in which nothing may change.
#include "stoker/ops/photometric.h"

#include <gtest/gtest.h>

#include "ops/golden.h"
#include "ops/pixels.h"
#include "ops/support.h"
#include "stoker/base/error.h"
#include "stoker/ops/flip.h"

namespace stoker {
namespace {

using testing::copy_of;
using testing::difference;
using testing::pattern;

template <typename Change>
Image changed(Image image, Change change) {
    change(image.view());
    return image;
}

// value * 1 / divisor + offset, the inputs of two golden arrays.
Image scaled(Image image, int divisor, int offset) {
    for (std::size_t i = 0; i < image.bytes(); ++i) {
        image.view().data[i] = static_cast<std::uint8_t>(image.view().data[i] / divisor + offset);
    }
    return image;
}

TEST(Photometric, PosterizeIsTorchvisions) {
    EXPECT_EQ(difference(changed(pattern(6, 7, 3), [](ImageView v) { posterize(v, 3); }), testing::kPosterize), 0);
    const Image image = testing::noise(4, 5, 3);
    EXPECT_EQ(difference(changed(copy_of(image), [](ImageView v) { posterize(v, 8); }), image), 0);
    const Image black = changed(copy_of(image), [](ImageView v) { posterize(v, 0); });
    EXPECT_EQ(*std::max_element(black.view().data, black.view().data + black.bytes()), 0);
}

TEST(Photometric, SolarizeIsTorchvisions) {
    EXPECT_EQ(difference(changed(pattern(6, 7, 3), [](ImageView v) { solarize(v, 100.5f); }), testing::kSolarize), 0);
    Image edge(1, 2, 1);
    edge.view().data[0] = 254;
    edge.view().data[1] = 255;
    solarize(edge.view(), 255);
    EXPECT_EQ(edge.view().data[0], 254);
    EXPECT_EQ(edge.view().data[1], 0);
}

TEST(Photometric, AutocontrastAndEqualizeAreTorchvisions) {
    EXPECT_EQ(difference(changed(scaled(pattern(6, 7, 3), 3, 40), autocontrast), testing::kAutocontrast), 0);
    EXPECT_EQ(difference(changed(scaled(pattern(16, 17, 1), 2, 0), equalize), testing::kEqualize), 0);
    const Image flat = scaled(pattern(20, 20, 3), 256, 77);
    EXPECT_EQ(difference(changed(copy_of(flat), autocontrast), flat), 0);
    EXPECT_EQ(difference(changed(copy_of(flat), equalize), flat), 0);
}

TEST(Photometric, SharpnessIsTorchvisions) {
    Image rows;
    const auto sharpened = [&](float factor) {
        return changed(pattern(6, 7, 3), [&](ImageView v) { adjust_sharpness(v, factor, rows); });
    };
    EXPECT_LE(difference(sharpened(1.5f), testing::kSharp), 1);
    EXPECT_LE(difference(sharpened(0.25f), testing::kSmooth), 1);
    EXPECT_EQ(difference(sharpened(1), pattern(6, 7, 3)), 0);
    const Image narrow = testing::noise(2, 9, 3);
    EXPECT_EQ(difference(changed(copy_of(narrow), [&](ImageView v) { adjust_sharpness(v, 0, rows); }), narrow), 0);
}

TEST(Photometric, WorksWithinAView) {
    Image rows;
    const Image image = scaled(testing::noise(20, 40, 3), 2, 30);
    const Box box{3, 4, 15, 31};
    const auto ops = {+[](ImageView v, Image&) { posterize(v, 2); }, +[](ImageView v, Image&) { solarize(v, 90); },
                      +[](ImageView v, Image&) { autocontrast(v); }, +[](ImageView v, Image&) { equalize(v); },
                      +[](ImageView v, Image& r) { adjust_sharpness(v, 1.9f, r); }};
    for (const auto op : ops) {
        Image within = copy_of(image);
        op(within.view().crop(box), rows);
        Image part(box.height, box.width, 3);
        copy_pixels(image.view().crop(box), part.view());
        op(part.view(), rows);
        Image wanted = copy_of(image);
        copy_pixels(part.view(), wanted.view().crop(box));
        EXPECT_EQ(difference(within, wanted), 0);
        EXPECT_GT(difference(within, image), 0);
    }
}

TEST(Photometric, RefusesNonsense) {
    Image rows;
    Image image = testing::noise(4, 4, 3);
    Image two = testing::noise(4, 4, 2);
    EXPECT_THROW(posterize(image.view(), 9), InvalidArgument);
    EXPECT_THROW(posterize(image.view(), -1), InvalidArgument);
    EXPECT_THROW(solarize(image.view(), 256), InvalidArgument);
    EXPECT_THROW(adjust_sharpness(image.view(), -1, rows), InvalidArgument);
    EXPECT_THROW(equalize(two.view()), DataError) << "the image's fault";
    EXPECT_THROW(autocontrast(two.view()), DataError);
}

TEST(VerticalFlip, ReversesRowsAndTwiceIsIdentity) {
    for (const int height : {1, 2, 5, 6}) {
        const Image image = testing::noise(height, 7, 3);
        Image flipped = copy_of(image);
        vertical_flip(flipped.view());
        for (int y = 0; y < height; ++y) {
            EXPECT_EQ(std::memcmp(flipped.view().row(y), image.view().row(height - 1 - y), 21), 0);
        }
        vertical_flip(flipped.view());
        EXPECT_EQ(difference(flipped, image), 0);
    }
    Rng rng({});
    EXPECT_FALSE(draw_vertical_flip({.probability = 0}, rng));
    EXPECT_TRUE(draw_vertical_flip({.probability = 1}, rng));
}

}  // namespace
}  // namespace stoker

// Decoding at 1/2, 1/4 and 1/8 of the size: close to the average of the exact pixels, equal for a JPEG and its dct
// record, and each box equal to that part of the whole image.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "codecs/fixtures.h"
#include "stoker/base/rng.h"
#include "stoker/codecs/dct/dct.h"
#include "stoker/codecs/encode.h"

namespace stoker {
namespace {

class RegionOf final : public RowSink {
  public:
    RegionOf(const Region& region, Image& image) : region_(region), image_(image) {}
    Region region(int /*height*/, int /*width*/) override { return region_; }
    void start(int height, int width, int channels) override { image_.reset(height, width, channels); }
    std::uint8_t* row(int y) override { return image_.view().row(y); }

  private:
    Region region_;
    Image& image_;
};

Image decode_region(std::span<const std::byte> bytes, const Region& region) {
    Image image;
    RegionOf sink(region, image);
    Decoder().decode(bytes, sink);
    return image;
}

// Smooth shapes, with little energy above the smaller image's frequencies.
Image soft_picture(int height, int width) {
    Image image(height, width, 3);
    for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
            for (int c = 0; c < 3; ++c) {
                image.view().row(y)[3 * x + c] =
                    static_cast<std::uint8_t>(128 + 60 * std::sin(x * 0.03 * (c + 1)) + 60 * std::cos(y * 0.025 + c));
            }
        }
    }
    return image;
}

double mean_error_to_average(ConstImageView exact, ConstImageView small, int shrink) {
    double sum = 0;
    for (int y = 0; y < small.height; ++y) {
        for (int x = 0; x < small.width; ++x) {
            for (int c = 0; c < 3; ++c) {
                double total = 0;
                int count = 0;
                for (int j = y * shrink; j < std::min((y + 1) * shrink, exact.height); ++j) {
                    for (int i = x * shrink; i < std::min((x + 1) * shrink, exact.width); ++i, ++count) {
                        total += exact.row(j)[3 * i + c];
                    }
                }
                sum += std::abs(total / count - small.row(y)[3 * x + c]);
            }
        }
    }
    return sum / (3.0 * small.height * small.width);
}

TEST(Shrink, IsCloseToTheAverageOfTheExactPixels) {
    for (const bool chroma_420 : {false, true}) {
        const auto jpeg = encode_jpeg(soft_picture(203, 301).view(), {.quality = 95, .chroma_420 = chroma_420});
        const Region whole{.box = {0, 0, 203, 301}};
        const Image exact = decode_region(jpeg, whole);
        for (const int shrink : {2, 4, 8}) {
            const Image small = decode_region(jpeg, {.box = whole.box, .shrink = shrink});
            EXPECT_EQ(small.height(), (203 + shrink - 1) / shrink);
            EXPECT_EQ(small.width(), (301 + shrink - 1) / shrink);
            EXPECT_LT(mean_error_to_average(exact.view(), small.view(), shrink), 1.5) << shrink << chroma_420;
        }
    }
}

TEST(Shrink, ABoxIsThatPartOfTheWhole) {
    Rng rng({.seed = 5});
    for (const bool chroma_420 : {false, true}) {
        const auto jpeg = encode_jpeg(soft_picture(120, 187).view(), {.quality = 90, .chroma_420 = chroma_420});
        const auto dct = encode_dct(jpeg).bytes;
        for (int trial = 0; trial < 200; ++trial) {
            const int shrink = 1 << (1 + trial % 3);
            Region region{.box = {}, .shrink = shrink};
            region.box.height = 1 + static_cast<int>(rng.below(120));
            region.box.width = 1 + static_cast<int>(rng.below(187));
            region.box.top = static_cast<int>(rng.below(static_cast<std::uint64_t>(121 - region.box.height)));
            region.box.left = static_cast<int>(rng.below(static_cast<std::uint64_t>(188 - region.box.width)));
            const Image whole = decode_region(jpeg, {.box = {0, 0, 120, 187}, .shrink = shrink});
            const Image part = decode_region(jpeg, region);
            const Image from_dct = decode_region(dct, region);
            const Box box = shrunk_box(region.box, shrink);
            ASSERT_EQ(part.height(), box.height);
            ASSERT_EQ(part.width(), box.width);
            for (int y = 0; y < box.height; ++y) {
                const std::size_t bytes = part.view().row_bytes();
                ASSERT_EQ(0, std::memcmp(part.view().row(y), whole.view().crop(box).row(y), bytes)) << trial;
                ASSERT_EQ(0, std::memcmp(part.view().row(y), from_dct.view().row(y), bytes)) << trial;
            }
        }
    }
}

}  // namespace
}  // namespace stoker

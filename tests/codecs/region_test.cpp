// Regions: every codec returns exactly the box of the whole image, upright or as stored, and does not read the rows
// below it.
#include "stoker/codecs/region.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>

#include "codecs/fixtures.h"
#include "codecs/writers.h"
#include "stoker/codecs/orientation.h"

namespace stoker {
namespace {

using namespace stoker::testing;
using ::testing::HasSubstr;

class BoxOfImage final : public RowSink {
  public:
    BoxOfImage(Region region, Image& image) : region_(region), image_(image) {}
    Region region(int height, int width) override {
        asked_ = {0, 0, height, width};
        return region_;
    }
    void start(int height, int width, int channels) override { image_.reset(height, width, channels); }
    std::uint8_t* row(int y) override { return image_.view().row(y); }

    Box asked() const { return asked_; }

  private:
    Region region_;
    Image& image_;
    Box asked_;
};

Image decode_box(Decoder& decoder, const Bytes& bytes, const Box& box, const DecodeOptions& options = {}) {
    Image image;
    BoxOfImage sink({.box = box}, image);
    decoder.decode(bytes, sink, options);
    return image;
}

Box random_box(Rng& rng, int height, int width) {
    const int top = static_cast<int>(rng.below(static_cast<std::uint32_t>(height)));
    const int left = static_cast<int>(rng.below(static_cast<std::uint32_t>(width)));
    return {top, left, 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(height - top))),
            1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(width - left)))};
}

std::vector<Bytes> images_of_every_codec() {
    const Image image = picture(37, 53);
    std::vector<Bytes> images = {
        encode_jpeg(image.view()),
        encode_jpeg(image.view(), {.chroma_420 = false, .progressive = true}),
        encode_jpeg(picture(37, 53, 1).view()),
        encode_png(image.view()),
        encode_png(picture(37, 53, 1).view()),
        encode_webp(image.view(), false),
        encode_webp(image.view(), true),
        random_pnm(1, 37, 53, 255).bytes,
        random_pnm(3, 37, 53, 4095).bytes,
    };
    for (const int bits : {1, 4, 8, 24, 32}) {
        images.push_back(random_bmp({.bits = bits, .top_down = bits == 4}, 37, 53).bytes);
    }
    return images;
}

TEST(RegionTest, EveryCodecReturnsTheBoxOfTheWholeImage) {
    Decoder decoder;
    Rng rng({.seed = 31});
    for (const Bytes& bytes : images_of_every_codec()) {
        const Image whole = decode(decoder, bytes);
        std::vector<Box> boxes = {{0, 0, 37, 53}, {0, 0, 1, 1}, {36, 52, 1, 1}, {0, 5, 37, 9}, {5, 0, 9, 53}};
        for (int i = 0; i < 40; ++i) {
            boxes.push_back(random_box(rng, 37, 53));
        }
        for (const Box& box : boxes) {
            const Image part = decode_box(decoder, bytes, box);
            ASSERT_TRUE(same_pixels(part.view(), whole.view().crop(box)))
                << codec_name(*sniff_codec(bytes)) << " " << box.top << " " << box.left << " " << box.height << " "
                << box.width;
        }
    }
}

TEST(RegionTest, CountsInUprightPixels) {
    Decoder decoder;
    Rng rng({.seed = 32});
    for (int orientation = 1; orientation <= 8; ++orientation) {
        const Image image = picture(21, 34);
        const Bytes block = exif_block(orientation, true);
        for (const Bytes& bytes :
             {jpeg_with_exif(encode_jpeg(image.view()), block), png_with_exif(encode_png(image.view()), block),
              webp_with_exif(encode_webp(image.view(), false), 21, 34, block)}) {
            const Image whole = decode(decoder, bytes, {.exif = true});
            ASSERT_EQ(whole.height(), swaps_sides(orientation) ? 34 : 21);
            for (int i = 0; i < 30; ++i) {
                const Box box = random_box(rng, whole.height(), whole.width());
                const Image part = decode_box(decoder, bytes, box, {.exif = true});
                ASSERT_TRUE(same_pixels(part.view(), whole.view().crop(box))) << "orientation " << orientation;
            }
        }
    }
}

TEST(RegionTest, TheSinkSeesTheSizeThatItsBoxIsIn) {
    Decoder decoder;
    Image image;
    const Bytes jpeg = jpeg_with_exif(encode_jpeg(picture(21, 34).view()), exif_block(6, true));
    BoxOfImage stored({.box = {0, 0, 2, 2}}, image);
    decoder.decode(jpeg, stored);
    EXPECT_EQ(stored.asked(), (Box{0, 0, 21, 34}));
    BoxOfImage upright({.box = {0, 0, 2, 2}}, image);
    decoder.decode(jpeg, upright, {.exif = true});
    EXPECT_EQ(upright.asked(), (Box{0, 0, 34, 21}));
}

TEST(RegionTest, ABoxOutsideIsRefused) {
    Decoder decoder;
    Image image;
    const Box outside[] = {{0, 0, 38, 1},  {0, 0, 1, 54}, {37, 0, 1, 1},      {0, 53, 1, 1},      {-1, 0, 2, 2},
                           {0, -1, 2, 2},  {0, 0, 0, 5},  {0, 0, 5, 0},       {1, 1, INT_MAX, 1}, {1, 1, 1, INT_MAX},
                           {5, 5, -1, -1}, {0, 0, 0, 0},  {INT_MAX, 0, 1, 1}, {0, INT_MIN, 1, 1}, {1, 1, INT_MIN, 1}};
    for (const Bytes& bytes : images_of_every_codec()) {
        for (const Box& box : outside) {
            EXPECT_THROW(decode_box(decoder, bytes, box), InvalidArgument);
        }
        BoxOfImage sink({.box = {0, 0, 1, 1}, .shrink = 3}, image);
        EXPECT_THROW(decoder.decode(bytes, sink), InvalidArgument);
        EXPECT_TRUE(survives(decoder, bytes));
    }
    try {
        decode_box(decoder, encode_png(picture(4, 6).view()), {.top = 3, .left = 2, .height = 2, .width = 5});
        FAIL();
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr("expected a box within 6 x 4 pixels and a shrink of 1, 2, 4 or 8, "
                                            "got 5 x 2 pixels at (2, 3) and 1"));
    }
    const Bytes turned = jpeg_with_exif(encode_jpeg(picture(4, 6).view()), exif_block(6, true));
    EXPECT_NO_THROW(decode_box(decoder, turned, {.top = 5, .left = 0, .height = 1, .width = 1}, {.exif = true}));
    EXPECT_THROW(decode_box(decoder, turned, {.top = 0, .left = 5, .height = 1, .width = 1}, {.exif = true}),
                 InvalidArgument);
}

TEST(RegionTest, RowsBelowAreNotRead) {
    Decoder decoder;
    const Image image = picture(400, 300);
    for (const Bytes& whole : {encode_jpeg(image.view()), encode_png(image.view())}) {
        const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(whole.size() / 2));
        const Box above{.top = 10, .left = 20, .height = 60, .width = 70};
        EXPECT_TRUE(same_pixels(decode_box(decoder, cut, above).view(), decode(whole).view().crop(above)));
        EXPECT_THROW(decode_box(decoder, cut, {.top = 10, .left = 20, .height = 390, .width = 1}), DataError);
    }
}

TEST(RegionTest, StoredBoxHoldsThePixelsOfTheUprightOne) {
    Rng rng({.seed = 33});
    const Image image = picture(9, 14);
    for (int orientation = 1; orientation <= 8; ++orientation) {
        Image upright;
        ImageSink sink(upright);
        apply_orientation(image.view(), orientation, sink);
        for (int i = 0; i < 50; ++i) {
            const Box box = random_box(rng, upright.height(), upright.width());
            Image part;
            ImageSink part_sink(part);
            apply_orientation(image.view().crop(stored_box(box, orientation, 9, 14)), orientation, part_sink);
            ASSERT_TRUE(same_pixels(part.view(), std::as_const(upright).view().crop(box)));
        }
    }
}

}  // namespace
}  // namespace stoker

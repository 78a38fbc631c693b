// Reads the orientation from good and hostile EXIF blocks and applies it to pixels. The expected pictures are written
// by hand, as a viewer shows them.
#include "stoker/codecs/orientation.h"

#include <gtest/gtest.h>

#include "codecs/fixtures.h"

namespace stoker {
namespace {

using namespace stoker::testing;

TEST(ExifTest, ReadsBothByteOrdersAndBothTypes) {
    for (int orientation = 1; orientation <= 8; ++orientation) {
        for (const bool big_endian : {false, true}) {
            EXPECT_EQ(exif_orientation(exif_block(orientation, big_endian)), orientation);
            EXPECT_EQ(exif_orientation(exif_block(orientation, big_endian, 4)), orientation);
        }
    }
    const Bytes prefixed = joined({bytes_of(std::string_view("Exif\0\0", 6)), exif_block(6, true)});
    EXPECT_EQ(exif_orientation(prefixed), 6);
}

TEST(ExifTest, MalformedBlocksMeanUpright) {
    EXPECT_EQ(exif_orientation({}), 1);
    EXPECT_EQ(exif_orientation(exif_block(0, false)), 1);
    EXPECT_EQ(exif_orientation(exif_block(9, true)), 1);
    EXPECT_EQ(exif_orientation(exif_block(6, true, 3, 2)), 1) << "two values are not an orientation";
    EXPECT_EQ(exif_orientation(exif_block(6, true, 7)), 1) << "nor is a blob";
    Bytes block = exif_block(6, false);
    block[2] = std::byte{43};
    EXPECT_EQ(exif_orientation(block), 1);
    block = exif_block(6, false);
    block[7] = std::byte{0xFF};  // the directory is far beyond the end
    EXPECT_EQ(exif_orientation(block), 1);
    block = exif_block(6, false);
    block[1] = std::byte{'M'};
    EXPECT_EQ(exif_orientation(block), 1);
}

TEST(ExifTest, EveryTruncationIsSafe) {
    const Bytes block = exif_block(6, true);
    for (std::size_t size = 0; size <= block.size(); ++size) {
        const Bytes cut(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(size));  // its own allocation
        const bool has_both_entries = size >= 8 + 2 + 2 * 12;                               // the rest is not needed
        EXPECT_EQ(exif_orientation(cut), has_both_entries ? 6 : 1) << size;
    }
}

TEST(ExifTest, RandomBlocksStayInRange) {
    Rng rng({.seed = 3});
    for (int round = 0; round < 5000; ++round) {
        const int orientation = exif_orientation(mutated(exif_block(6, round % 2 == 0), rng));
        ASSERT_GE(orientation, 1);
        ASSERT_LE(orientation, 8);
    }
}

// The stored picture is
//   a b c
//   d e f
constexpr std::string_view kStored = "abc/def";
constexpr std::string_view kUpright[8] = {"abc/def",  "cba/fed",  "fed/cba",  "def/abc",
                                          "ad/be/cf", "da/eb/fc", "fc/eb/da", "cf/be/ad"};

// An image (H, W, 3) of letters; each letter is three different bytes.
Image letters(std::string_view rows) {
    const int width = static_cast<int>(rows.find('/'));
    Image image(static_cast<int>(std::count(rows.begin(), rows.end(), '/')) + 1, width, 3);
    for (int y = 0; y < image.height(); ++y) {
        for (int x = 0; x < width; ++x) {
            const auto letter = static_cast<std::uint8_t>(rows[static_cast<std::size_t>(y * (width + 1) + x)]);
            for (int c = 0; c < 3; ++c) {
                image.view().row(y)[3 * x + c] = static_cast<std::uint8_t>(letter + 50 * c);
            }
        }
    }
    return image;
}

TEST(OrientationTest, TurnsAllEightWays) {
    const Image stored = letters(kStored);
    for (int orientation = 1; orientation <= 8; ++orientation) {
        Image upright;
        ImageSink sink(upright);
        apply_orientation(stored.view(), orientation, sink);
        EXPECT_TRUE(same_pixels(upright.view(), letters(kUpright[orientation - 1]).view())) << orientation;
    }
}

TEST(OrientationTest, ReadsPaddedRows) {
    const Image wide = letters("abcx/defx");
    Image upright;
    ImageSink sink(upright);
    apply_orientation(wide.view().crop({.top = 0, .left = 0, .height = 2, .width = 3}), 6, sink);
    EXPECT_TRUE(same_pixels(upright.view(), letters(kUpright[5]).view()));
}

TEST(OrientationTest, RefusesOtherNumbers) {
    Image upright;
    ImageSink sink(upright);
    EXPECT_THROW(apply_orientation(letters(kStored).view(), 0, sink), InvalidArgument);
    EXPECT_THROW(apply_orientation(letters(kStored).view(), 9, sink), InvalidArgument);
}

TEST(OrientationTest, DecodersTurnOnlyWhenAsked) {
    const Image stored = letters(kStored);
    const Bytes png = encode_png(stored.view());
    const Bytes jpeg = encode_jpeg(picture(9, 14).view());
    const Image plain = decode(jpeg);
    Decoder decoder;
    for (int orientation = 1; orientation <= 8; ++orientation) {
        const Bytes block = exif_block(orientation, orientation % 2 == 0);
        for (const bool behind : {false, true}) {
            const Bytes tagged = png_with_exif(png, block, behind);
            EXPECT_EQ(decoder.info(tagged).orientation, orientation);
            EXPECT_TRUE(same_pixels(decode(decoder, tagged).view(), stored.view()));
            EXPECT_TRUE(
                same_pixels(decode(decoder, tagged, {.exif = true}).view(), letters(kUpright[orientation - 1]).view()));
        }
        const Bytes tagged = jpeg_with_exif(jpeg, block);
        EXPECT_EQ(decoder.info(tagged).orientation, orientation);
        EXPECT_EQ(decoder.info(jpeg).orientation, 1) << "left over from the image before";
        EXPECT_TRUE(same_pixels(decode(decoder, tagged).view(), plain.view()));
        Image upright;
        ImageSink sink(upright);
        apply_orientation(plain.view(), orientation, sink);
        EXPECT_TRUE(same_pixels(decode(decoder, tagged, {.exif = true}).view(), upright.view()));
        RowByRow rows;
        decoder.decode(tagged, rows, {.exif = true});
        EXPECT_TRUE(rows.complete());
    }
}

}  // namespace
}  // namespace stoker

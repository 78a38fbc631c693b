// WebP: lossless exactly, lossy compared with libwebp's decode of the whole image, EXIF, animations, truncation at
// every byte, mutations.
#include "stoker/codecs/decoders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <webp/decode.h>

#include "codecs/fixtures.h"
#include "codecs/writers.h"

namespace stoker {
namespace {

using namespace stoker::testing;
using ::testing::HasSubstr;

Image decode_by_libwebp(const Bytes& bytes) {
    int width = 0;
    int height = 0;
    std::uint8_t* data =
        WebPDecodeRGB(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(), &width, &height);
    Image image(height, width, 3);
    std::memcpy(image.view().data, data, image.bytes());
    WebPFree(data);
    return image;
}

TEST(WebpTest, LosslessIsExact) {
    Decoder decoder;
    for (const auto& [height, width] : {std::pair{1, 1}, {7, 13}, {64, 48}, {33, 100}}) {
        const Image image = picture(height, width);
        const Bytes bytes = encode_webp(image.view(), true);
        EXPECT_EQ(decoder.info(bytes).codec, Codec::webp);
        EXPECT_EQ(decoder.info(bytes).height, height);
        EXPECT_EQ(decoder.info(bytes).width, width);
        EXPECT_TRUE(same_pixels(decode(decoder, bytes).view(), image.view()));
        RowByRow rows;
        decoder.decode(bytes, rows);
        EXPECT_TRUE(rows.complete());
    }
}

TEST(WebpTest, LossyMatchesLibwebp) {
    Decoder decoder;
    for (const auto& [height, width] : {std::pair{1, 1}, {7, 13}, {64, 48}, {33, 100}}) {
        const Image image = picture(height, width);
        const Bytes bytes = encode_webp(image.view(), false);
        const Image ours = decode(decoder, bytes);
        EXPECT_TRUE(same_pixels(ours.view(), decode_by_libwebp(bytes).view()));
        EXPECT_LT(difference(ours.view(), image.view()).mean, 8.0);
    }
}

TEST(WebpTest, AlphaChangesNoColour) {
    Image image(9, 14, 4);
    Rng rng({.seed = 3});
    for (int i = 0; i < 9 * 14 * 4; ++i) {
        image.view().data[i] =
            static_cast<std::uint8_t>(1 + rng.below(255));  // the encoder drops the colour under alpha 0
    }
    const Image ours = decode(encode_webp(image.view(), true));
    for (int i = 0; i < 9 * 14; ++i) {
        ASSERT_EQ(std::memcmp(ours.view().data + 3 * i, image.view().data + 4 * i, 3), 0) << "pixel " << i;
    }
    const Bytes lossy = encode_webp(image.view(), false);
    EXPECT_TRUE(same_pixels(decode(lossy).view(), decode_by_libwebp(lossy).view()));
}

TEST(WebpTest, ExifTurnsUpright) {
    const Bytes plain = encode_webp(picture(7, 12).view(), true);
    for (const bool lossless : {false, true}) {
        const Bytes webp = webp_with_exif(encode_webp(picture(7, 12).view(), lossless), 7, 12, exif_block(6, true));
        EXPECT_EQ(Decoder().info(webp).orientation, 6);
        EXPECT_EQ(decode(webp).height(), 7);
        EXPECT_EQ(decode(webp, {.exif = true}).height(), 12);
    }
    EXPECT_EQ(Decoder().info(plain).orientation, 1);
}

TEST(WebpTest, AnimationsAreRefused) {
    const Bytes webp = animated_webp(encode_webp(picture(7, 12).view(), true), 7, 12);
    for (const auto& text : {error_of([&] { decode(webp); }), error_of([&] { Decoder().info(webp); })}) {
        EXPECT_THAT(text, HasSubstr("expected one still image, got an animated WebP; data.first_frame = true, or"));
    }
}

TEST(WebpTest, TheFirstFrameOfAnAnimation) {
    const Image image = picture(7, 12);
    const Bytes still = encode_webp(image.view(), true);
    const DecodeOptions first{.first_frame = true};
    EXPECT_EQ(Decoder().info(animated_webp(still, 7, 12), first).width, 12);
    EXPECT_TRUE(same_pixels(decode(animated_webp(still, 7, 12), first).view(), image.view()));
    EXPECT_TRUE(same_pixels(decode(still, first).view(), image.view()));

    // On a larger canvas, from its pixel (4, 2) on; the rest is black.
    const Bytes small = animated_webp(still, 7, 12, {.height = 11, .width = 20, .top = 2, .left = 4});
    Image canvas(11, 20, 3);
    std::memset(canvas.view().data, 0, canvas.bytes());
    copy_pixels(image.view(), canvas.view().crop({2, 4, 7, 12}));
    EXPECT_TRUE(same_pixels(decode(small, first).view(), canvas.view()));

    EXPECT_THAT(error_of([&] { decode(animated_webp(still, 7, 11), first); }), HasSubstr("with an image of 12 x 7"));
    EXPECT_THAT(error_of([&] { decode(animated_webp(still, 7, 12, {.height = 7, .width = 13, .left = 2}), first); }),
                HasSubstr("expected a first frame within 13 x 7 pixels"));
    const Bytes none = webp_file(joined({webp_extension(2, 7, 12), webp_chunk("ANIM", Bytes(6))}));
    EXPECT_THAT(error_of([&] { decode(none, first); }), HasSubstr("an animation with a first frame, got none"));
}

TEST(WebpTest, EveryTruncationIsADataError) {
    Decoder decoder;
    for (const bool lossless : {false, true}) {
        const Bytes whole = webp_with_exif(encode_webp(picture(24, 40).view(), lossless), 24, 40, exif_block(3, false));
        ASSERT_TRUE(survives(decoder, whole));
        for (std::size_t size = 0; size < whole.size(); ++size) {
            Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
            ASSERT_FALSE(survives(decoder, cut)) << size << " of " << whole.size();
            if (size >= 12) {
                ASSERT_THAT(error_of([&] { decode(decoder, cut); }),
                            HasSubstr("truncated WebP that ends after " + std::to_string(size) + " bytes"));
            }
        }
        // Truncated pixels in a container whose size field is correct.
        const Bytes pixels = encode_webp(picture(24, 40).view(), lossless);
        const auto chunk = std::span(pixels).subspan(20, pixels.size() - 60);
        EXPECT_THROW(decode(webp_file(webp_chunk(lossless ? "VP8L" : "VP8 ", chunk))), DataError);
    }
}

TEST(WebpTest, RandomMutationsAreDecodedOrDataErrors) {
    Decoder decoder;
    Rng rng({.seed = 13});
    const Image image = picture(16, 24);
    const Bytes originals[] = {encode_webp(image.view(), false), encode_webp(image.view(), true),
                               webp_with_exif(encode_webp(image.view(), false), 16, 24, exif_block(6, true)),
                               encode_webp(picture(16, 24, 4).view(), false)};
    int clean = 0;
    constexpr int kRounds = 4000;
    for (int round = 0; round < kRounds; ++round) {
        Bytes bytes = mutated(originals[round % 4], rng);
        if (bytes.size() >= 8 &&
            round % 2 == 0) {  // correct the size field; otherwise the size check would end these rounds
            Bytes size;
            append_number(size, bytes.size() - 8, 4, false);
            std::copy(size.begin(), size.end(), bytes.begin() + 4);
        }
        clean += survives(decoder, bytes, {.exif = round % 8 == 2}) ? 1 : 0;
    }
    EXPECT_GT(clean, kRounds / 20);
    EXPECT_LT(clean, kRounds * 19 / 20);
    EXPECT_TRUE(survives(decoder, originals[0]));
}

}  // namespace
}  // namespace stoker

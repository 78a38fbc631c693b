// PPM and PGM: all sample sizes compared with a simple formula, header syntax, truncation at every byte, mutations.
#include "stoker/codecs/decoders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codecs/fixtures.h"
#include "codecs/writers.h"

namespace stoker {
namespace {

using namespace stoker::testing;
using ::testing::HasSubstr;

TEST(PnmTest, EverySampleSize) {
    Decoder decoder;
    for (const int channels : {1, 3}) {
        for (const std::uint32_t largest : {1u, 7u, 31u, 254u, 255u, 256u, 1023u, 4095u, 65534u, 65535u}) {
            const Written written = random_pnm(channels, 13, 9, largest);
            const ImageInfo info = decoder.info(written.bytes);
            EXPECT_EQ(info.codec, Codec::pnm);
            EXPECT_EQ(info.height, 13);
            EXPECT_EQ(info.width, 9);
            const Image ours = decode(decoder, written.bytes);
            const int apart = difference(ours.view(), written.expected.view()).largest;
            EXPECT_LE(apart, largest % 2 == 0 ? 1 : 0) << largest;  // even maxima have ties
            RowByRow rows;
            decoder.decode(written.bytes, rows);
            EXPECT_TRUE(rows.complete());
        }
    }
}

TEST(PnmTest, SamplesAboveTheLargestAreWhite) {
    const Image image = decode(bytes_of("P5 3 1 100 \x64\x65\xff"));
    EXPECT_EQ(image.view().data[0], 255);
    EXPECT_EQ(image.view().data[3], 255);
    EXPECT_EQ(image.view().data[6], 255);
}

TEST(PnmTest, HeaderSyntax) {
    const Image plain = decode(bytes_of("P6 1 1 255 abc"));
    for (const char* text : {"P6\n1\n1\n255\nabc", "P6#x\n1 # 2\r1 255\rabc", "P6\t\v\f 001 1\r\n255\nabc and more"}) {
        EXPECT_TRUE(same_pixels(decode(bytes_of(text)).view(), plain.view())) << text;
    }
    const auto refused = [](const char* text) { return error_of([&] { decode(bytes_of(text)); }); };
    EXPECT_THAT(refused("P6 x 1 255 abc"), HasSubstr("expected a width of at most 9 digits, got byte 78"));
    EXPECT_THAT(refused("P6 1 1000000000 255 abc"), HasSubstr("a height of at most 9 digits, got a longer number"));
    EXPECT_THAT(refused("P6 1 1 0 abc"), HasSubstr("a largest sample of 1 to 65535, got 0"));
    EXPECT_THAT(refused("P6 1 1 65536 abcdef"), HasSubstr("got 65536"));
    EXPECT_THAT(refused("P6 1 1 255abc"), HasSubstr("one white space before the pixels, got byte 61"));
    EXPECT_THAT(refused("P6 0 1 255 abc"), HasSubstr("0 x 1"));
    EXPECT_THAT(refused("P6 -1 1 255 abc"), HasSubstr("got byte 2d"));
    EXPECT_THAT(refused("P5 # never ends"), HasSubstr("a truncated PPM or PGM that ends after 15 bytes"));
    EXPECT_EQ(sniff_codec(bytes_of("P5x")), std::nullopt);
    EXPECT_EQ(sniff_codec(bytes_of("P4 1 1 ")), std::nullopt);
}

TEST(PnmTest, EveryTruncationIsADataError) {
    Decoder decoder;
    for (const std::uint32_t largest : {255u, 1000u}) {
        const Bytes whole = random_pnm(3, 4, 5, largest).bytes;
        ASSERT_TRUE(survives(decoder, whole));
        for (std::size_t size = 0; size < whole.size(); ++size) {
            const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
            ASSERT_FALSE(survives(decoder, cut)) << size << " of " << whole.size();
            if (size >= 3) {
                ASSERT_THAT(error_of([&] { decode(decoder, cut); }), HasSubstr("a truncated PPM or PGM that ends"));
            }
        }
    }
}

TEST(PnmTest, RandomMutationsAreDecodedOrDataErrors) {
    Decoder decoder;
    Rng rng({.seed = 15});
    const Bytes originals[] = {random_pnm(1, 5, 4, 255).bytes, random_pnm(3, 4, 3, 9).bytes,
                               random_pnm(3, 3, 4, 999).bytes};
    int clean = 0;
    constexpr int kRounds = 6000;
    for (int round = 0; round < kRounds; ++round) {
        clean += survives(decoder, mutated(originals[round % 3], rng)) ? 1 : 0;
    }
    EXPECT_GT(clean, kRounds / 20);
    EXPECT_LT(clean, kRounds * 19 / 20);
}

}  // namespace
}  // namespace stoker

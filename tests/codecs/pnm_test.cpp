// PBM, PGM and PPM: all sample sizes compared with a simple formula, header syntax, truncation at every byte,
// mutations.
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
    EXPECT_THAT(refused("P5 # never ends"), HasSubstr("a truncated PNM that ends after 15 bytes"));
    EXPECT_EQ(sniff_codec(bytes_of("P5x")), std::nullopt);
    EXPECT_EQ(sniff_codec(bytes_of("P7 1 1 ")), std::nullopt);
    EXPECT_EQ(sniff_codec(bytes_of("P0 1 1 ")), std::nullopt);
}

std::vector<int> reds(const char* text) {
    const Image image = decode(bytes_of(text));
    std::vector<int> levels;
    for (int i = 0; i < image.height() * image.width(); ++i) {
        levels.push_back(image.view().data[3 * i]);
    }
    return levels;
}

TEST(PnmTest, TextAndBitmaps) {
    using ::testing::ElementsAre;
    EXPECT_THAT(reds("P1 3 2\n0 1 0\n111"), ElementsAre(255, 0, 255, 0, 0, 0));
    EXPECT_THAT(reds("P1 2 1 # a comment\n0 # another\n1\n"), ElementsAre(255, 0));
    EXPECT_THAT(reds("P4 10 1 \xaa\x80"), ElementsAre(0, 255, 0, 255, 0, 255, 0, 255, 0, 255));
    EXPECT_THAT(reds("P2 3 1 100\n0\n50 # half\n100"), ElementsAre(0, 128, 255));
    EXPECT_THAT(reds("P2 2 1 65535 65535 32768 more"), ElementsAre(255, 128));
    EXPECT_THAT(reds("P2 1 1 255 1#in the number\n2"), ElementsAre(12));
    EXPECT_THAT(reds("P3 2 1 255 1 2 3 4 5 6"), ElementsAre(1, 4));
    const auto refused = [](const char* text) { return error_of([&] { decode(bytes_of(text)); }); };
    EXPECT_THAT(refused("P1 2 1 02"), HasSubstr("expected a 0 or 1, got byte 32"));
    EXPECT_THAT(refused("P2 2 1 100 50 101"), HasSubstr("a sample of at most 100, got 101"));
    EXPECT_THAT(refused("P2 2 1 100 -5 10"), HasSubstr("got byte 2d"));
    EXPECT_THAT(refused("P2 2 1 100 5x 10"), HasSubstr("a sample of digits, got byte 78"));
    EXPECT_THAT(refused("P2 2 1 100 5   "), HasSubstr("a truncated PNM"));
    EXPECT_THAT(refused("P3 2 1 100 5 5 5"), HasSubstr("a truncated PNM"));
    EXPECT_THAT(refused("P4 10 2 abc"), HasSubstr("a truncated PNM"));
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
                ASSERT_THAT(error_of([&] { decode(decoder, cut); }), HasSubstr("a truncated PNM that ends"));
            }
        }
    }
}

TEST(PnmTest, RandomMutationsAreDecodedOrDataErrors) {
    Decoder decoder;
    Rng rng({.seed = 15});
    const Bytes originals[] = {random_pnm(1, 5, 4, 255).bytes,
                               random_pnm(3, 4, 3, 9).bytes,
                               random_pnm(3, 3, 4, 999).bytes,
                               bytes_of("P1 5 4 01010 11111 0 1 0 1 0 11011"),
                               bytes_of("P3 2 2 # c\n99 1 2 3 4 5 6 7 8 9 10 11 99 "),
                               bytes_of("P4 9 3 abcdef")};
    int clean = 0;
    constexpr int kRounds = 6000;
    for (int round = 0; round < kRounds; ++round) {
        clean += survives(decoder, mutated(originals[round % 6], rng)) ? 1 : 0;
    }
    EXPECT_GT(clean, kRounds / 20);
    EXPECT_LT(clean, kRounds * 19 / 20);
}

}  // namespace
}  // namespace stoker

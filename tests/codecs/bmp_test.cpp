// BMP: every supported kind compared with the pixels it was written from, unsupported kinds, truncation at every byte,
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

constexpr BmpKind kKinds[] = {
    {.bits = 1},
    {.bits = 4},
    {.bits = 4, .colors = 5},
    {.bits = 8},
    {.bits = 8, .top_down = true, .colors = 100},
    {.bits = 8, .header = 12},
    {.bits = 1, .header = 12},
    {.bits = 8, .header = 64},
    {.bits = 16},
    {.bits = 16, .header = 124, .top_down = true},
    {.bits = 16, .masked = true},
    {.bits = 16, .header = 108, .masked = true},
    {.bits = 24},
    {.bits = 24, .header = 12},
    {.bits = 24, .header = 124, .top_down = true},
    {.bits = 32},
    {.bits = 32, .header = 108, .top_down = true},
    {.bits = 32, .masked = true},
    {.bits = 32, .header = 108, .masked = true},
};

void put(Bytes& bytes, std::size_t offset, std::uint64_t value, int size) {
    Bytes number;
    append_number(number, value, size, false);
    std::copy(number.begin(), number.end(), bytes.begin() + static_cast<std::ptrdiff_t>(offset));
}

TEST(BmpTest, EveryKindIsExact) {
    Decoder decoder;
    for (const BmpKind& kind : kKinds) {
        for (const auto& [height, width] : {std::pair{1, 1}, {5, 3}, {3, 11}, {20, 17}}) {
            const Written written = random_bmp(kind, height, width);
            const ImageInfo info = decoder.info(written.bytes);
            EXPECT_EQ(info.codec, Codec::bmp);
            EXPECT_EQ(info.height, height);
            EXPECT_EQ(info.width, width);
            EXPECT_TRUE(same_pixels(decode(decoder, written.bytes).view(), written.expected.view()))
                << kind.bits << " bits, header of " << kind.header << " bytes, " << height << " x " << width;
            RowByRow rows;
            decoder.decode(written.bytes, rows);
            EXPECT_TRUE(rows.complete());
        }
    }
}

TEST(BmpTest, EveryTruncationIsADataError) {
    Decoder decoder;
    for (const BmpKind& kind : kKinds) {
        const Bytes whole = random_bmp(kind, 4, 5).bytes;
        const auto padding = static_cast<std::size_t>((4 - (5 * kind.bits + 7) / 8 % 4) % 4);
        for (std::size_t size = 0; size < whole.size() - padding; ++size) {
            const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
            ASSERT_FALSE(survives(decoder, cut)) << size << " of " << whole.size();
            if (size >= 18) {
                ASSERT_THAT(error_of([&] { decode(decoder, cut); }),
                            HasSubstr("truncated BMP that ends after " + std::to_string(size) + " bytes"));
            }
        }
        // The padding of the last row may be missing.
        EXPECT_TRUE(survives(decoder, Bytes(whole.begin(), whole.end() - static_cast<std::ptrdiff_t>(padding))));
    }
}

TEST(BmpTest, RunLengthEncodedRows) {
    Decoder decoder;
    for (const int bits : {4, 8}) {
        const Bytes whole = bmp_of_runs(bits, 3, 5, bmp_runs(bits));
        const Image image = decode(decoder, whole);
        ASSERT_EQ(image.height(), 3);
        ASSERT_EQ(image.width(), 5);
        const std::vector<int> indices = bmp_runs_indices(bits);
        for (std::size_t i = 0; i < indices.size(); ++i) {
            EXPECT_EQ(image.view().data[3 * i], indices[i] * 10) << bits << " bits, pixel " << i;
        }
        const std::size_t runs = whole.size() - bmp_runs(bits).size();
        for (std::size_t size = runs; size < whole.size() - 2; ++size) {  // the end of the image is not needed
            const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
            EXPECT_THAT(error_of([&] { decode(decoder, cut); }), HasSubstr("truncated BMP")) << size;
        }
        Bytes ended = whole;
        put(ended, runs, 0x0100, 2);
        EXPECT_THAT(error_of([&] { decode(ended); }), HasSubstr("runs of 15 pixels, got the end of the image after 0"));
    }
}

TEST(BmpTest, RunsNeverLeaveTheImage) {
    const Image clipped = decode(bmp_of_runs(8, 1, 3, bytes_of({255, 1, 9, 2})));
    EXPECT_EQ(clipped.view().data[6], 10);
    const Image skipped = decode(bmp_of_runs(8, 2, 3, bytes_of({0, 2, 255, 255})));
    EXPECT_EQ(skipped.view().data[15], 0);
    const Image literal = decode(bmp_of_runs(8, 1, 3, bytes_of({0, 4, 1, 2, 3, 4})));
    EXPECT_EQ(literal.view().data[6], 30);
}

TEST(BmpTest, ErrorsDescribeUnsupportedKinds) {
    Bytes bmp = random_bmp({.bits = 8}, 4, 5).bytes;
    put(bmp, 30, 4, 4);  // a JPEG in a BMP
    EXPECT_THAT(error_of([&] { decode(bmp); }),
                HasSubstr("expected a BMP of 1, 4, 8, 16, 24 or 32 bits, uncompressed, run-length encoded or with bit "
                          "fields, got 8 bits with compression 4"));
    put(bmp, 30, 2, 4);  // runs of 4 bits
    EXPECT_THAT(error_of([&] { decode(bmp); }), HasSubstr("got 8 bits with compression 2"));
    bmp = random_bmp({.bits = 24}, 4, 5).bytes;
    put(bmp, 28, 2, 2);
    EXPECT_THAT(error_of([&] { decode(bmp); }), HasSubstr("got 2 bits with compression 0"));
    bmp = random_bmp({.bits = 16, .masked = true}, 4, 5).bytes;
    put(bmp, 54, 0x1F800, 4);
    EXPECT_THAT(error_of([&] { decode(bmp); }), HasSubstr("16 bits with compression 3 and a mask of 0001f800"));
    put(bmp, 54, 0xF8001, 4);
    EXPECT_THAT(error_of([&] { decode(bmp); }), HasSubstr("a mask of 000f8001"));
    bmp = random_bmp({.bits = 32, .masked = true}, 4, 5).bytes;
    put(bmp, 58, 0x3FE00, 4);
    EXPECT_THAT(error_of([&] { decode(bmp); }), HasSubstr("32 bits with compression 3 and a mask of 0003fe00"));
}

TEST(BmpTest, InconsistentHeadersAreRefused) {
    const Bytes bmp = random_bmp({.bits = 8, .colors = 16}, 4, 5).bytes;
    Bytes bytes = bmp;
    put(bytes, 10, 20, 4);
    EXPECT_THAT(error_of([&] { decode(bytes); }), HasSubstr("pixels after the headers, got pixels at byte 20"));
    bytes = bmp;
    put(bytes, 10, 0xFFFFFFFF, 4);
    EXPECT_THAT(error_of([&] { decode(bytes); }), HasSubstr("truncated BMP"));
    bytes = bmp;
    bytes.back() = bytes[bytes.size() - 4] = std::byte{16};
    EXPECT_EQ(decode(bytes).view().row(0)[3 * 4], 0);  // an index beyond the palette is black
    bytes = bmp;
    put(bytes, 22, 0, 4);
    EXPECT_THAT(error_of([&] { decode(bytes); }), HasSubstr("5 x 0"));
    EXPECT_EQ(sniff_codec(bytes_of("BMW builds cars, said the text")), std::nullopt);
}

TEST(BmpTest, RandomMutationsAreDecodedOrDataErrors) {
    Decoder decoder;
    Rng rng({.seed = 14});
    std::vector<Bytes> originals;
    for (const BmpKind& kind : kKinds) {
        originals.push_back(random_bmp(kind, 6, 7).bytes);
    }
    for (const int bits : {4, 8}) {
        originals.push_back(bmp_of_runs(bits, 3, 5, bmp_runs(bits)));
    }
    int clean = 0;
    constexpr int kRounds = 6000;
    for (int round = 0; round < kRounds; ++round) {
        Bytes bytes = originals[static_cast<std::size_t>(round) % originals.size()];
        if (round % 2 == 0) {  // only the header
            const auto header = static_cast<std::uint32_t>(std::min<std::size_t>(bytes.size() - 10, 50));
            const auto at = bytes.begin() + static_cast<std::ptrdiff_t>(10 + rng.below(header));
            *at = static_cast<std::byte>(rng.below(256));
        } else {
            bytes = mutated(bytes, rng);
        }
        clean += survives(decoder, bytes) ? 1 : 0;
    }
    EXPECT_GT(clean, kRounds / 20);
    EXPECT_LT(clean, kRounds * 19 / 20);
}

}  // namespace
}  // namespace stoker

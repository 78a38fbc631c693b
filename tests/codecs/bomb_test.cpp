// Headers that claim too many pixels: each codec refuses them before it allocates memory. The tests limit the address
// space of the process, so that an allocation fails even if the memory is never touched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>

#include "codecs/fixtures.h"
#include "codecs/writers.h"
#include "support/address_limit.h"
#include "support/memory_room.h"

namespace stoker {
namespace {

using namespace stoker::testing;
using ::testing::HasSubstr;

constexpr std::size_t kSlack = std::size_t{64} << 20;

void expect_refused(const Bytes& bomb, const char* words) {
    Decoder decoder;
    const AddressLimit limit(kSlack);
    EXPECT_THAT(error_of([&] { decode(decoder, bomb); }), HasSubstr(words));
    EXPECT_THAT(error_of([&] { decoder.info(bomb); }), HasSubstr(words));
    EXPECT_THAT(error_of([&] { decode(decoder, bomb, {.exif = true}); }), HasSubstr(words));
}

TEST(BombTest, TheLimitWorks) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers end the process where memory ends";
#else
    const AddressLimit limit(kSlack);
    EXPECT_THROW(Image(6000, 6000, 3), IoError);
#endif
}

TEST(BombTest, Jpeg) {
    Bytes jpeg = encode_jpeg(picture(8, 8).view());
    const Bytes frame = bytes_of({0xFF, 0xC0, 0x00, 0x11, 0x08});
    const auto at = std::search(jpeg.begin(), jpeg.end(), frame.begin(), frame.end());
    ASSERT_NE(at, jpeg.end());
    std::fill(at + 5, at + 9, std::byte{0xFF});
    expect_refused(jpeg, "Maximum supported image dimension");  // libjpeg's own limit comes first
    at[6] = at[8] = std::byte{0xD0};
    expect_refused(jpeg, "65488 x 65488");
}

TEST(BombTest, Png) {
    const Bytes png = encode_png(picture(4, 4).view());
    for (const std::uint32_t side : {16385u, 65535u, 0x7FFFFFFFu}) {
        for (const bool interlaced : {false, true}) {
            Bytes header;
            append_number(header, side, 4, true);
            append_number(header, side, 4, true);
            header = joined({header, std::span(png).subspan(24, 5)});
            header.back() = static_cast<std::byte>(interlaced);
            expect_refused(joined({std::span(png).first(8), png_chunk("IHDR", header), std::span(png).subspan(33)}),
                           side > 65535 ? "arithmetic overflow" : fmt::format("{} x {}", side, side).c_str());
        }
    }
}

TEST(BombTest, Webp) {
    // A lossy or lossless stream is at most 16383 x 16383; a canvas may be larger.
    const Bytes webp = encode_webp(picture(8, 8).view(), true);
    const Bytes still = webp_file(joined({webp_extension(0, 65535, 65535), std::span(webp).subspan(12)}));
    expect_refused(still, "expected a valid WebP");  // canvas and stream have different sizes
    expect_refused(animated_webp(webp, 65535, 65535), "65535 x 65535");
    const Bytes cut = webp_file(webp_extension(0, 65535, 65535));
    expect_refused(cut, "65535 x 65535");
}

TEST(BombTest, Bmp) {
    for (const std::int64_t side : {std::int64_t{16385}, std::int64_t{65535}, std::int64_t{INT_MAX}}) {
        for (const int bits : {1, 8, 24, 32}) {
            for (const bool top_down : {false, true}) {
                Bytes bmp = bmp_header({.bits = bits, .top_down = top_down}, side, side, 0);
                bmp.resize(bmp.size() + 4096);
                expect_refused(bmp, fmt::format("{} x {}", side, side).c_str());
            }
        }
    }
    Bytes bmp = bmp_header({.bits = 24}, INT_MIN, 1, 0);
    bmp.resize(bmp.size() + 4096);
    expect_refused(bmp, "1 x 2147483648");
    bmp = bmp_header({.bits = 24}, 16384, 16384, 0);  // allowed, but the bytes are missing
    bmp.resize(bmp.size() + 4096);
    Decoder decoder;
    const AddressLimit limit(kSlack);
    EXPECT_THAT(error_of([&] { decode(decoder, bmp); }), HasSubstr("truncated BMP"));
    bmp = bmp_of_runs(8, 16384, 16384, bytes_of({255, 1, 255, 1}));
    EXPECT_THAT(error_of([&] { decode(decoder, bmp); }), HasSubstr("truncated BMP"));
}

TEST(BombTest, Pnm) {
    for (const char* sides : {"16385 16385", "65535 65535", "999999999 999999999"}) {
        for (const char* magic : {"P1", "P2", "P3", "P4", "P5", "P6"}) {
            std::string text = sides;
            text.replace(text.find(' '), 1, " x ");
            expect_refused(bytes_of(fmt::format("{} {} 65535 abcdef", magic, sides)), text.c_str());
        }
    }
    Decoder decoder;
    const AddressLimit limit(kSlack);
    for (const char* text : {"P6 16384 16384 65535 abcdef", "P4 16384 16384 abcdef", "P3 16384 16384 255 1 2 3",
                             "P1 16384 16384 1 0 1 0"}) {
        EXPECT_THAT(error_of([&] { decode(decoder, bytes_of(text)); }), HasSubstr("truncated")) << text;
    }
}

void overwrite(Bytes& bytes, std::ptrdiff_t offset, std::uint32_t value, int size, bool big_endian) {
    for (int i = 0; i < size; ++i) {
        const int shift = 8 * (big_endian ? size - 1 - i : i);
        bytes.at(static_cast<std::size_t>(offset + i)) = static_cast<std::byte>(value >> shift);
    }
}

// Images within the limit of pixels, whose decoding takes more memory than the process may use. 12000 x 12000 pixels
// are 432 MB, and as many bytes for the coefficients of a progressive JPEG with chroma at half size.
TEST(BombTest, WhatTakesTooMuchMemoryIsRefusedBeforeItIsAllocated) {
    constexpr std::uint32_t kSide = 12'000;
    Bytes jpeg = encode_jpeg(picture(8, 8).view(), {.progressive = true});
    const Bytes frame = bytes_of({0xFF, 0xC2, 0x00, 0x11, 0x08});
    const auto at = std::search(jpeg.begin(), jpeg.end(), frame.begin(), frame.end());
    ASSERT_NE(at, jpeg.end());
    overwrite(jpeg, at + 5 - jpeg.begin(), kSide << 16 | kSide, 4, true);

    const Bytes small = encode_png(picture(4, 4).view());
    Bytes header(small.begin() + 16, small.begin() + 29);
    overwrite(header, 0, kSide, 4, true);
    overwrite(header, 4, kSide, 4, true);
    header.back() = std::byte{1};  // interlaced
    const Bytes png = joined({std::span(small).first(8), png_chunk("IHDR", header), std::span(small).subspan(33)});

    Bytes webp = encode_webp(picture(8, 8).view(), true);
    const Bytes stream = bytes_of({0x2F});
    const auto start = std::search(webp.begin() + 20, webp.end(), stream.begin(), stream.end());
    ASSERT_NE(start, webp.end());
    overwrite(webp, start + 1 - webp.begin(), (kSide - 1) | (kSide - 1) << 14, 4, false);

    Bytes skips;
    for (std::uint32_t y = 0; y < kSide; y += 255) {
        skips.insert(skips.end(), {std::byte{0}, std::byte{2}, std::byte{0}, std::byte{255}});
    }
    const Bytes bmp = bmp_of_runs(8, kSide, kSide, skips);

    RowByRow rows;  // takes no memory for the image
    const MemoryRoom room(100 * kMiB);
    for (const Bytes& bytes : {jpeg, png, webp, bmp}) {
        Decoder decoder;
        EXPECT_EQ(decoder.info(bytes).width, static_cast<int>(kSide));
        EXPECT_THROW(decoder.decode(bytes, rows), MemoryError) << codec_name(*sniff_codec(bytes));
    }
}

}  // namespace
}  // namespace stoker

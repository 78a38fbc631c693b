// JPEG: round trips, colour spaces, truncation at every byte, decompression bombs, and no state that leaks from image
// to image.
#include "stoker/codecs/jpeg/jpeg.h"

#include <malloc.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "codecs/fixtures.h"
#include "stoker/base/memory_limit.h"
#include "stoker/codecs/encode.h"
#include "support/memory_room.h"

namespace stoker {
namespace {

using namespace stoker::testing;
using ::testing::HasSubstr;

// The start and end of the first header segment with this marker; if there is none, the end of the file twice.
struct Segment {
    std::size_t begin = 0;
    std::size_t end = 0;
};
Segment find_segment(const Bytes& jpeg, int marker) {
    constexpr std::byte kStartOfScan{0xDA};
    std::size_t at = 2;
    while (jpeg[at + 1] != kStartOfScan) {
        const std::size_t length =
            std::to_integer<std::size_t>(jpeg[at + 2]) << 8 | std::to_integer<std::size_t>(jpeg[at + 3]);
        if (jpeg[at + 1] == static_cast<std::byte>(marker)) {
            return {at, at + 2 + length};
        }
        at += 2 + length;
    }
    return {at, at};
}

Bytes without(Bytes jpeg, int marker) {
    for (Segment found = find_segment(jpeg, marker); found.begin < found.end; found = find_segment(jpeg, marker)) {
        jpeg.erase(jpeg.begin() + static_cast<std::ptrdiff_t>(found.begin),
                   jpeg.begin() + static_cast<std::ptrdiff_t>(found.end));
    }
    return jpeg;
}

constexpr int kQuantTable = 0xDB;
constexpr int kHuffmanTable = 0xC4;
constexpr int kBaselineFrame = 0xC0;

// Writes (H, W, 4) samples as a CMYK or YCCK file with Adobe's marker.
Bytes encode_cmyk(ConstImageView image, J_COLOR_SPACE space) {
    jpeg_compress_struct codec{};
    jpeg_error_mgr errors{};
    codec.err = jpeg_std_error(&errors);
    jpeg_create_compress(&codec);
    unsigned char* data = nullptr;
    unsigned long size = 0;
    jpeg_mem_dest(&codec, &data, &size);
    codec.image_height = static_cast<JDIMENSION>(image.height);
    codec.image_width = static_cast<JDIMENSION>(image.width);
    codec.input_components = 4;
    codec.in_color_space = JCS_CMYK;
    jpeg_set_defaults(&codec);
    jpeg_set_colorspace(&codec, space);
    jpeg_set_quality(&codec, 100, TRUE);
    codec.comp_info[0].h_samp_factor = codec.comp_info[0].v_samp_factor = 1;
    codec.comp_info[3].h_samp_factor = codec.comp_info[3].v_samp_factor = 1;
    jpeg_start_compress(&codec, TRUE);
    for (int y = 0; y < image.height; ++y) {
        JSAMPROW row = const_cast<JSAMPROW>(image.row(y));
        jpeg_write_scanlines(&codec, &row, 1);
    }
    jpeg_finish_compress(&codec);
    jpeg_destroy_compress(&codec);
    const auto* begin = reinterpret_cast<const std::byte*>(data);
    Bytes bytes(begin, begin + size);
    std::free(data);
    return bytes;
}

TEST(JpegTest, RoundTripsInEveryMode) {
    for (const int channels : {1, 3}) {
        for (const bool chroma_420 : {false, true}) {
            for (const bool progressive : {false, true}) {
                for (const auto& [height, width] : {std::pair{1, 1}, {7, 13}, {64, 48}, {33, 100}}) {
                    const Image image = picture(height, width, channels);
                    const Bytes bytes = encode_jpeg(
                        image.view(), {.quality = 95, .chroma_420 = chroma_420, .progressive = progressive});
                    const ImageInfo info = Decoder().info(bytes);
                    EXPECT_EQ(info.codec, Codec::jpeg);
                    EXPECT_EQ(info.height, height);
                    EXPECT_EQ(info.width, width);
                    EXPECT_EQ(info.progressive, progressive);
                    const Image back = decode(bytes);
                    Image expected(height, width, 3);
                    for (int y = 0; y < height; ++y) {
                        for (int x = 0; x < width * 3; ++x) {
                            expected.view().row(y)[x] = image.view().row(y)[channels == 3 ? x : x / 3];
                        }
                    }
                    EXPECT_LT(difference(back.view(), expected.view()).mean, 4.0);
                }
            }
        }
    }
}

TEST(JpegTest, CmykAndYcckAreInvertedInk) {
    Image ink(16, 32, 4);
    for (int y = 0; y < 16; ++y) {
        for (int x = 0; x < 32; ++x) {
            const int samples[4] = {8 * x, 255 - 8 * x, 16 * y, 255 - 4 * x};
            for (int c = 0; c < 4; ++c) {
                ink.view().row(y)[4 * x + c] = static_cast<std::uint8_t>(samples[c]);
            }
        }
    }
    Image expected(16, 32, 3);
    for (int y = 0; y < 16; ++y) {
        for (int x = 0; x < 32; ++x) {
            const std::uint8_t* sample = ink.view().row(y) + 4 * x;
            for (int c = 0; c < 3; ++c) {
                expected.view().row(y)[3 * x + c] = static_cast<std::uint8_t>(sample[c] * sample[3] / 255.0 + 0.5);
            }
        }
    }
    EXPECT_LE(difference(decode(encode_cmyk(ink.view(), JCS_CMYK)).view(), expected.view()).largest, 3);
    EXPECT_LE(difference(decode(encode_cmyk(ink.view(), JCS_YCCK)).view(), expected.view()).largest, 5);
}

TEST(JpegTest, EveryTruncationIsADataErrorThatSaysSo) {
    Decoder decoder;
    for (const bool progressive : {false, true}) {
        const Bytes whole = encode_jpeg(picture(24, 40).view(), {.progressive = progressive});
        ASSERT_TRUE(survives(decoder, whole));
        for (std::size_t size = 0; size < whole.size(); ++size) {
            const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
            ASSERT_FALSE(survives(decoder, cut)) << size << " of " << whole.size();
            if (size >= 3) {
                const std::string text = error_of([&] { decode(decoder, cut); });
                ASSERT_THAT(text, HasSubstr("truncated JPEG that ends after " + std::to_string(size) + " bytes"));
                ASSERT_THAT(text, HasSubstr("@ byte " + std::to_string(size)));
            }
        }
    }
}

TEST(JpegTest, UnusualButCompleteDataPasses) {
    const Bytes jpeg = encode_jpeg(picture(24, 40).view());
    const Image plain = decode(jpeg);
    const Bytes end = bytes_of({0xFF, 0xD9});
    const auto body = std::span(jpeg).first(jpeg.size() - 2);
    const Bytes garbage = bytes_of({1, 2, 3});
    EXPECT_TRUE(same_pixels(decode(joined({jpeg, garbage})).view(), plain.view()));
    EXPECT_TRUE(same_pixels(decode(joined({body, garbage, end})).view(), plain.view()));
    // Entropy-coded data that ends early but is followed by an end marker: the rest is filled, as in Pillow.
    EXPECT_EQ(decode(joined({body.first(body.size() - 60), end})).height(), 24);
}

TEST(JpegTest, DamageAfterTheLastRowIsNoticed) {
    const Bytes jpeg = encode_jpeg(picture(24, 40).view());
    const auto body = std::span(jpeg).first(jpeg.size() - 2);
    const Bytes second_frame = bytes_of({0xFF, 0xC1, 0x00, 0x02, 0xFF, 0xD9});
    EXPECT_THROW(decode(joined({body, second_frame})), DataError);
    const Bytes cut_segment = bytes_of({0xFF, 0xE5, 0x40, 0x00, 1, 2, 3});
    EXPECT_THAT(error_of([&] { decode(joined({body, cut_segment})); }), HasSubstr("truncated JPEG"));
}

TEST(JpegTest, TheFirstExifBlockCounts) {
    const Bytes jpeg = jpeg_with_exif(encode_jpeg(picture(8, 8).view()), exif_block(3, true));
    EXPECT_EQ(Decoder().info(jpeg_with_exif(jpeg, exif_block(6, false))).orientation, 6);
    EXPECT_EQ(Decoder().info(jpeg_with_exif(jpeg, exif_block(1, false))).orientation, 1);
}

TEST(JpegTest, MemoryDoesNotGrowFromImageToImage) {
    const Bytes good = encode_jpeg(picture(8, 8).view());
    const Bytes bad(good.begin(), good.end() - 20);
    Decoder decoder;
    const auto decode_some = [&](int rounds) {
        for (int round = 0; round < rounds; ++round) {
            survives(decoder, good);
            survives(decoder, bad);
        }
        return static_cast<std::int64_t>(mallinfo2().uordblks);  // 0 if a sanitizer replaces malloc
    };
    const std::int64_t before = decode_some(10);
    EXPECT_LT(decode_some(2000) - before, 100'000);
}

TEST(JpegTest, NoTableIsKeptFromThePreviousImage) {
    const Bytes good = encode_jpeg(picture(24, 40).view());
    const Bytes no_quant = without(good, kQuantTable);
    // A file without Huffman tables uses the standard ones, as our baseline encoder does. The progressive image before
    // it has other tables.
    const Bytes no_huffman = without(good, kHuffmanTable);
    const Bytes progressive = encode_jpeg(picture(24, 40).view(), {.progressive = true});
    const Image expected = decode(good);
    ASSERT_TRUE(same_pixels(decode(no_huffman).view(), expected.view()));
    EXPECT_THROW(decode(no_quant), DataError);
    Decoder used;
    for (int round = 0; round < 3; ++round) {
        decode(used, good);
        EXPECT_THROW(decode(used, no_quant), DataError);
        decode(used, progressive);
        Image image;
        ASSERT_NO_THROW(image = decode(used, no_huffman));
        EXPECT_TRUE(same_pixels(image.view(), expected.view()));
    }
}

TEST(JpegTest, RefusesScanBombs) {
    const Bytes jpeg = encode_jpeg(picture(16, 16).view(), {.progressive = true});
    std::size_t scan = jpeg.size() - 2;
    while (jpeg[scan] != std::byte{0xFF} || jpeg[scan + 1] != std::byte{0xDA}) {
        --scan;
    }
    const auto last = std::span(jpeg).subspan(scan, jpeg.size() - 2 - scan);
    const auto repeated = [&](int times) {
        Bytes bytes(jpeg.begin(), jpeg.end() - 2);
        for (int i = 0; i < times; ++i) {
            bytes.insert(bytes.end(), last.begin(), last.end());
        }
        return joined({bytes, bytes_of({0xFF, 0xD9})});
    };
    EXPECT_EQ(decode(repeated(20)).height(), 16);
    EXPECT_THAT(error_of([&] { decode(repeated(kMaxJpegScans)); }), HasSubstr("at most 500 scans"));
}

TEST(JpegTest, RefusesSizesBeforeAllocatingMemory) {
    Bytes jpeg = encode_jpeg(picture(16, 16).view());
    const std::size_t frame = find_segment(jpeg, kBaselineFrame).begin;
    for (const std::size_t i : {5u, 7u}) {  // 65000 = 0xFDE8
        jpeg[frame + i] = std::byte{0xFD};
        jpeg[frame + i + 1] = std::byte{0xE8};
    }
    EXPECT_THAT(error_of([&] { decode(jpeg); }), HasSubstr("65000 x 65000"));
    EXPECT_THAT(error_of([&] { Decoder().info(jpeg); }), HasSubstr("65000 x 65000"));
    jpeg[frame + 4] = std::byte{12};  // bits per sample
    EXPECT_THROW(decode(jpeg), DataError);
}

TEST(JpegTest, RandomMutationsAreDecodedOrDataErrors) {
    Decoder decoder;
    Rng rng({.seed = 11});
    const Bytes originals[] = {
        encode_jpeg(picture(16, 24).view()),
        encode_jpeg(picture(16, 24).view(), {.chroma_420 = false, .progressive = true}),
        jpeg_with_exif(encode_jpeg(picture(9, 9, 1).view()), exif_block(6, true)),
        encode_cmyk(picture(16, 16, 4).view(), JCS_YCCK),
    };
    int clean = 0;
    constexpr int kRounds = 4000;
    for (int round = 0; round < kRounds; ++round) {
        const Bytes bytes = mutated(originals[round % 4], rng);
        clean += survives(decoder, bytes, {.exif = round % 8 == 2}) ? 1 : 0;
    }
    EXPECT_GT(clean, kRounds / 20);  // both outcomes occurred
    EXPECT_LT(clean, kRounds * 19 / 20);
    EXPECT_TRUE(survives(decoder, originals[0]));
}

TEST(JpegTest, EncoderRefusesWhatItCannotWrite) {
    const Image image = picture(4, 4);
    EXPECT_THROW(encode_jpeg(image.view(), {.quality = 0}), InvalidArgument);
    EXPECT_THROW(encode_jpeg(image.view(), {.quality = 101}), InvalidArgument);
    EXPECT_THROW(encode_jpeg(picture(4, 4, 4).view()), InvalidArgument);
    EXPECT_THROW(encode_jpeg(Image(0, 4, 3).view()), InvalidArgument);
    EXPECT_THROW(encode_jpeg(Image(1, 70000, 3).view()), InvalidArgument);
}

// What libjpeg has written is used memory and no longer claimed, or workers would refuse images that fit.
TEST(JpegTest, CoefficientsAreNotCountedTwice) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers keep freed memory";
#endif
    const Bytes jpeg = encode_jpeg(picture(4096, 4096).view(), {.progressive = true});
    constexpr std::int64_t kCoefficients = 48 * kMiB;  // 4:2:0
    JpegDecoder decoder;
    RowByRow rows;
    const MemoryRoom room(400 * kMiB);
    std::uint64_t least = memory_left();
    const std::uint64_t before = least;
    std::atomic<bool> done = false;
    std::thread watch([&] {
        while (!done) {
            least = std::min(least, memory_left());
        }
    });
    decoder.decode(jpeg, rows);
    done = true;
    watch.join();
    EXPECT_TRUE(rows.complete());
    EXPECT_GE(before - least, kCoefficients * 9 / 10) << "they are counted";
    EXPECT_LE(before - least, kCoefficients * 5 / 4) << "but once";
}

}  // namespace
}  // namespace stoker

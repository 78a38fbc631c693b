// Decoder: detection of codecs, errors for unknown bytes, one decoder for good and bad images, sinks that throw, and
// real photographs.
#include "stoker/codecs/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "codecs/fixtures.h"
#include "codecs/writers.h"
#include "stoker/base/file.h"
#include "support/data.h"

namespace stoker {
namespace {

using namespace stoker::testing;
using ::testing::HasSubstr;

TEST(CodecTest, SniffsByContent) {
    EXPECT_EQ(sniff_codec(encode_jpeg(picture(4, 4).view())), Codec::jpeg);
    EXPECT_EQ(sniff_codec(encode_png(picture(4, 4).view())), Codec::png);
    EXPECT_EQ(sniff_codec(encode_webp(picture(4, 4).view(), false)), Codec::webp);
    EXPECT_EQ(sniff_codec(random_bmp({}, 4, 4).bytes), Codec::bmp);
    EXPECT_EQ(sniff_codec(random_pnm(1, 4, 4, 255).bytes), Codec::pnm);
    EXPECT_EQ(sniff_codec({}), std::nullopt);
    EXPECT_EQ(sniff_codec(bytes_of({0xFF, 0xD8})), std::nullopt);
    EXPECT_EQ(sniff_codec(bytes_of("\x89PNG\r\n\x1a")), std::nullopt);
    EXPECT_EQ(codec_name(Codec::jpeg), "jpeg");
    EXPECT_EQ(codec_name(Codec::png), "png");
    EXPECT_EQ(codec_name(Codec::webp), "webp");
    EXPECT_EQ(codec_name(Codec::bmp), "bmp");
    EXPECT_EQ(codec_name(Codec::pnm), "pnm");
}

TEST(CodecTest, ErrorsDescribeUnknownBytes) {
    Decoder decoder;
    const auto found = [&](const Bytes& bytes) { return error_of([&] { decode(decoder, bytes); }); };
    EXPECT_THAT(found({}), HasSubstr("JPEG XL, GIF or JPEG 2000 image, got no bytes"));
    EXPECT_THAT(found(bytes_of("hello world, this is no image")), HasSubstr("got text \"hello world, thi...\""));
    EXPECT_THAT(found(bytes_of("<html>\n")), HasSubstr("got text \"<html>\\x0a\""));
    EXPECT_THAT(found(bytes_of({0, 1, 2, 0xFE})), HasSubstr("got bytes 00 01 02 fe"));
    EXPECT_THAT(found(bytes_of("RIFF....WAVEfmt ")), HasSubstr("got text \"RIFF....WAVEfmt \""));
    EXPECT_THAT(found(bytes_of(std::string_view("PK\3\4"))), HasSubstr("got a zip archive"));
    EXPECT_THAT(error_of([&] { decoder.info(bytes_of("RIFF")); }), HasSubstr("got text \"RIFF\""));
}

TEST(CodecTest, OneDecoderOverGoodAndBadImages) {
    const Bytes jpeg = encode_jpeg(picture(40, 30).view());
    const Bytes progressive = encode_jpeg(picture(17, 50).view(), {.chroma_420 = false, .progressive = true});
    const Bytes grey = encode_jpeg(picture(8, 8, 1).view());
    const Bytes png = encode_png(picture(12, 21).view());
    const Bytes webp = encode_webp(picture(30, 21).view(), false);
    const Bytes bmp = random_bmp({.bits = 8}, 9, 9).bytes;
    const Bytes pnm = random_pnm(3, 7, 8, 1000).bytes;
    const Bytes* good[] = {&jpeg, &progressive, &grey, &png, &webp, &bmp, &pnm};
    Image expected[7];
    for (int i = 0; i < 7; ++i) {
        expected[i] = decode(*good[i]);  // with a new decoder
    }
    Decoder decoder;
    Rng rng({.seed = 4});
    for (int round = 0; round < 700; ++round) {
        const auto i = rng.below(7);
        survives(decoder, mutated(*good[rng.below(7)], rng));
        if (rng.chance(0.5f)) {
            decoder.info(*good[rng.below(7)]);
        }
        ASSERT_TRUE(same_pixels(decode(decoder, *good[i]).view(), expected[i].view())) << "round " << round;
    }
    Decoder moved = std::move(decoder);
    EXPECT_TRUE(same_pixels(decode(moved, jpeg).view(), expected[0].view()));
}

class ThrowingSink final : public RowSink {
  public:
    explicit ThrowingSink(int rows) : rows_(rows) {}
    void start(int /*height*/, int width, int channels) override {
        row_.resize(static_cast<std::size_t>(width * channels));
    }
    std::uint8_t* row(int y) override {
        if (y == rows_) {
            throw InvalidArgument({.where = "sink", .expected = "fewer rows", .got = "one more"});
        }
        return row_.data();
    }

  private:
    int rows_;
    std::vector<std::uint8_t> row_;
};

TEST(CodecTest, ASinkMayThrow) {
    Decoder decoder;
    const Bytes images[] = {encode_jpeg(picture(40, 30).view()),
                            encode_png(picture(40, 30).view()),
                            encode_jpeg(picture(40, 30).view(), {.progressive = true}),
                            encode_webp(picture(40, 30).view(), true),
                            random_bmp({}, 40, 30).bytes,
                            random_pnm(3, 40, 30, 255).bytes};
    for (const Bytes& bytes : images) {
        const Image expected = decode(bytes);
        for (const int rows : {0, 1, 17, 39}) {
            ThrowingSink sink(rows);
            EXPECT_THROW(decoder.decode(bytes, sink), InvalidArgument);
            EXPECT_TRUE(same_pixels(decode(decoder, bytes).view(), expected.view()));
        }
    }
}

TEST(CodecTest, DecodersOfSeveralThreadsAreIndependent) {
    const Bytes jpeg = encode_jpeg(picture(60, 80).view());
    const Image expected = decode(jpeg);
    std::vector<int> good(4);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < good.size(); ++t) {
        threads.emplace_back([&, t] {
            Decoder decoder;
            Rng rng({.seed = 20 + t});
            for (int round = 0; round < 50; ++round) {
                survives(decoder, mutated(jpeg, rng));
                good[t] += same_pixels(decode(decoder, jpeg).view(), expected.view()) ? 1 : 0;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_THAT(good, ::testing::Each(50));
}

TEST(CodecTest, RealPhotographsDecode) {
    STOKER_SKIP_WITHOUT(photos, "photos");
    Decoder decoder;
    int count = 0;
    int truncated = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(photos)) {
        if (!entry.is_regular_file()) {
            continue;
        }
        const MappedFile file(entry.path());
        const ImageInfo info = decoder.info(file.bytes());
        const Image image = decode(decoder, file.bytes());
        EXPECT_EQ(image.height(), info.height) << entry.path();
        EXPECT_EQ(image.width(), info.width) << entry.path();
        EXPECT_EQ(image.channels(), 3);
        if (count % 24 == 0) {  // compressing is slow
            EXPECT_TRUE(same_pixels(decode(encode_png(image.view())).view(), image.view())) << entry.path();
        }
        truncated += survives(decoder, file.bytes().first(file.bytes().size() * 2 / 3)) ? 0 : 1;
        ++count;
    }
    EXPECT_EQ(count, 96);
    EXPECT_EQ(truncated, 96);
}

}  // namespace
}  // namespace stoker

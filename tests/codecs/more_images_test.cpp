// AVIF, HEIC, JPEG XL, GIF and JPEG 2000 from tests/codecs/files: pixels, sizes, orientations, animations, truncation
// at every byte, mutations. Without a library its tests are skipped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codecs/fixtures.h"
#include "stoker/base/file.h"
#include "support/paths.h"

namespace stoker {
namespace {

using namespace stoker::testing;

Bytes file(const std::string& name) {
    const MappedFile mapped(source_dir() / "tests/codecs/files" / name);
    return {mapped.bytes().begin(), mapped.bytes().end()};
}

struct Kind {
    const char* name;
    Codec codec;
    int largest = 0;  // difference from the reference
    int orientation = 1;
};

// libheif up to 1.18 converts an AVIF's chroma to RGB and back; libjxl rounds differently from 0.11 on.
const Kind kKinds[] = {
    {"colors.avif", Codec::avif, 6}, {"turned.avif", Codec::avif, 2, 6}, {"grey.avif", Codec::avif, 1},
    {"colors.heic", Codec::heic, 2}, {"turned.heic", Codec::heic, 2},    {"colors.jxl", Codec::jxl},
    {"alpha.jxl", Codec::jxl},       {"lossy.jxl", Codec::jxl, 2},       {"animated.jxl", Codec::jxl},
    {"still.gif", Codec::gif},       {"animated.gif", Codec::gif},       {"colors.jp2", Codec::jpeg2000},
    {"alpha.jp2", Codec::jpeg2000},  {"grey.jp2", Codec::jpeg2000},      {"deep.jp2", Codec::jpeg2000},
    {"tiles.j2k", Codec::jpeg2000}};

class MoreImages : public ::testing::TestWithParam<Kind> {
  protected:
    void SetUp() override {
        try {
            decode(bytes_, kFirst);
        } catch (const IoError& error) {
            GTEST_SKIP() << error.what();
        }
    }

    static constexpr DecodeOptions kFirst{.first_frame = true};
    Bytes bytes_ = file(GetParam().name);
};

INSTANTIATE_TEST_SUITE_P(Files, MoreImages, ::testing::ValuesIn(kKinds), [](const auto& kind) {
    std::string name = kind.param.name;
    std::ranges::replace(name, '.', '_');
    return name;
});

TEST_P(MoreImages, PixelsAreThoseOfTheReference) {
    const Image wanted = decode(file(std::string(GetParam().name) + ".png"));
    Decoder decoder;
    const ImageInfo info = decoder.info(bytes_, kFirst);
    EXPECT_EQ(sniff_codec(bytes_), GetParam().codec);
    EXPECT_EQ(info.codec, GetParam().codec);
    EXPECT_EQ(info.height, wanted.height());
    EXPECT_EQ(info.width, wanted.width());
    EXPECT_EQ(info.orientation, GetParam().orientation);
    for (int i = 0; i < 2; ++i) {
        const Image ours = decode(decoder, bytes_, kFirst);
        ASSERT_EQ(ours.height(), wanted.height());
        ASSERT_EQ(ours.width(), wanted.width());
        EXPECT_LE(difference(ours.view(), wanted.view()).largest, GetParam().largest);
    }
    RowByRow rows;
    decoder.decode(bytes_, rows, kFirst);
    EXPECT_TRUE(rows.complete());
    EXPECT_EQ(decode(bytes_, {.exif = true, .first_frame = true}).height(),
              GetParam().orientation == 6 ? wanted.width() : wanted.height());
}

class PartSink final : public RowSink {
  public:
    PartSink(const Box& box, Image& image) : box_(box), image_(image) {}
    Region region(int /*height*/, int /*width*/) override { return {.box = box_}; }
    void start(int height, int width, int channels) override { image_.reset(height, width, channels); }
    std::uint8_t* row(int y) override { return image_.view().row(y); }

  private:
    Box box_;
    Image& image_;
};

TEST_P(MoreImages, APartIsThatOfTheWhole) {
    const Image whole = decode(bytes_, kFirst);
    for (const Box& box : {Box{0, 0, 1, 1}, Box{3, 5, 7, 9}, Box{13, 18, 1, 1}, Box{5, 0, 2, 19}}) {
        Image part;
        PartSink sink(box, part);
        Decoder().decode(bytes_, sink, kFirst);
        EXPECT_TRUE(same_pixels(part.view(), whole.view().crop(box)));
    }
}

TEST_P(MoreImages, EveryTruncationIsADataError) {
    const bool animated = std::string_view(GetParam().name).starts_with("animated");
    Decoder decoder;
    for (std::size_t size = 0; size < bytes_.size() && !animated; ++size) {
        const Bytes cut(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(size));
        ASSERT_FALSE(survives(decoder, cut)) << size << " of " << bytes_.size();
    }
    EXPECT_TRUE(survives(decoder, bytes_, kFirst));
}

TEST_P(MoreImages, RandomMutationsAreDecodedOrDataErrors) {
    Decoder decoder;
    Rng rng({.seed = 21});
    int clean = 0;
    constexpr int kRounds = 400;
    for (int round = 0; round < kRounds; ++round) {
        const Bytes bytes = mutated(bytes_, rng);
        const DecodeOptions options{.exif = round % 2 == 0, .first_frame = true};
        try {
            const ImageInfo info = decoder.info(bytes, options);
            constexpr std::int64_t kLargest = 1 << 20;
            clean += std::int64_t{info.height} * info.width <= kLargest && survives(decoder, bytes, options) ? 1 : 0;
        } catch (const DataError&) {
        }
    }
    EXPECT_LT(clean, kRounds);
    EXPECT_TRUE(survives(decoder, bytes_, kFirst));
}

TEST_P(MoreImages, AnimationsAreRefused) {
    const bool animated = std::string_view(GetParam().name).starts_with("animated");
    const auto all = [&](const std::string& text) {
        EXPECT_EQ(text.find("expected one still image, got an animated ") != std::string::npos, animated) << text;
    };
    all(error_of([&] { decode(bytes_); }));
    all(error_of([&] { Decoder().info(bytes_); }));
}

}  // namespace
}  // namespace stoker

// Parts of the decoders of AVIF, HEIC, GIF and JPEG 2000: a GIF's canvas, brands and turns, chroma, and headers that
// promise too much.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codecs/fixtures.h"
#include "stoker/base/file.h"
#include "stoker/codecs/heif_boxes.h"
#include "stoker/codecs/heif_coded_size.h"
#include "stoker/codecs/yuv_to_rgb.h"
#include "support/address_limit.h"
#include "support/memory_room.h"
#include "support/paths.h"

namespace stoker {
namespace {

using namespace stoker::testing;
using ::testing::HasSubstr;

Bytes file(const std::string& name) {
    const MappedFile mapped(source_dir() / "tests/codecs/files" / name);
    return {mapped.bytes().begin(), mapped.bytes().end()};
}

TEST(GifTest, TheFirstFrameOnItsCanvas) {
    Bytes gif = file("still.gif");
    const Image frame = decode(gif);
    const auto put = [&](std::ptrdiff_t at, int value) { gif.at(static_cast<std::size_t>(at)) = std::byte(value); };
    const Bytes descriptor = bytes_of({0x2C, 0, 0, 0, 0, 19, 0, 14, 0});
    const auto at = std::search(gif.begin(), gif.end(), descriptor.begin(), descriptor.end()) - gif.begin();
    put(6, 30);
    put(8, 20);
    put(at + 1, 4);  // left
    put(at + 3, 2);  // top
    Image canvas(20, 30, 3);
    for (int i = 0; i < 20 * 30; ++i) {
        std::memcpy(canvas.view().data + std::ptrdiff_t{3} * i, gif.data() + 13, 3);  // colour 0
    }
    copy_pixels(frame.view(), canvas.view().crop({2, 4, 14, 19}));
    EXPECT_TRUE(same_pixels(decode(gif).view(), canvas.view()));
    put(at + 1, 20);  // beyond the canvas, which grows
    EXPECT_EQ(Decoder().info(gif).width, 39);
    EXPECT_EQ(decode(gif).width(), 39);
}

TEST(HeifTest, BrandsAndTurns) {
    const auto brands = [](std::string_view main, std::string_view other) {
        return joined(
            {bytes_of({0, 0, 0, 20}), bytes_of("ftyp"), bytes_of(main), bytes_of({0, 0, 0, 0}), bytes_of(other)});
    };
    EXPECT_EQ(heif_codec(brands("avif", "mif1")), Codec::avif);
    EXPECT_EQ(heif_codec(brands("mif1", "avif")), Codec::avif);
    EXPECT_EQ(heif_codec(brands("mif1", "heic")), Codec::heic);
    EXPECT_EQ(heif_codec(brands("heix", "mif1")), Codec::heic);
    EXPECT_EQ(heif_codec(brands("mp42", "isom")), std::nullopt);
    EXPECT_TRUE(is_heif_sequence(brands("avis", "avif")));
    EXPECT_EQ(heif_orientation(file("turned.avif")), 6);
    EXPECT_EQ(heif_orientation(file("colors.avif")), 1);
    EXPECT_EQ(heif_chroma_format(file("colors.avif")), 1);
    EXPECT_EQ(heif_chroma_format(file("turned.avif")), 3);
    EXPECT_EQ(heif_chroma_format(file("grey.avif")), 0);
    EXPECT_EQ(heif_chroma_format(file("colors.heic")), 1);
}

// bomb.avif says 16 x 16 and contains 6000 x 6000.
TEST(HeifTest, CodedPicturesAreMeasuredBeforeTheyAreDecoded) {
    const auto sizes = [](const char* name) {
        const Bytes bytes = file(name);
        return coded_sizes(read_heif_items(bytes));
    };
    EXPECT_EQ(sizes("colors.avif").largest, 19U * 14);
    EXPECT_EQ(sizes("grey.avif").largest, 19U * 14);
    EXPECT_GE(sizes("colors.heic").largest, 24U * 16);
    EXPECT_LE(sizes("colors.heic").largest, 64U * 64);
    const Bytes bomb = file("bomb.avif");
    EXPECT_EQ(sizes("bomb.avif").largest, 6000U * 6000);
    RowByRow rows;
    const MemoryRoom room(100 * kMiB);
    EXPECT_THROW(Decoder().decode(bomb, rows), MemoryError);
}

TEST(YuvTest, ChromaIsInterpolated) {
    const std::vector<std::uint8_t> luma(12, 100);
    const std::vector<std::uint8_t> u{128, 128};
    const std::vector<std::uint8_t> v{128, 168};
    YuvRows rows({.y = {luma.data(), 4, 3, 4}, .u = {u.data(), 2, 1, 2}, .v = {v.data(), 2, 1, 2}});
    std::vector<std::uint8_t> row(12);
    rows.read(0, row.data());
    // V is 128, 138, 158, 168: each row of pixels uses the only row of chroma.
    const std::vector<int> red{100, 114, 142, 156};
    for (std::size_t x = 0; x < 4; ++x) {
        EXPECT_EQ(row[3 * x], red[x]);
        EXPECT_EQ(row[3 * x + 2], 100);
    }
}

void overwrite(Bytes& bytes, std::size_t at, std::initializer_list<int> values) {
    for (const int value : values) {
        bytes.at(at++) = std::byte(value);
    }
}

// None of these may allocate what its header says.
TEST(BombTest, MoreImages) {
    Bytes gif = file("still.gif");
    overwrite(gif, 6, {0xFF, 0xFF, 0xFF, 0xFF});
    Bytes sizes = file("tiles.j2k");  // SIZ: marker at 2, X, Y, their origins, then the tiles' sizes
    Bytes tiles = sizes;
    overwrite(sizes, 8, {0x7F, 0xFF, 0xFF, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF});
    overwrite(tiles, 24, {0, 0, 0, 1, 0, 0, 0, 1});
    Bytes precincts = file("tiles.j2k");
    overwrite(precincts, 8, {0, 0, 0x30, 0, 0, 0, 0x20, 0});  // six tiles, as before
    overwrite(precincts, 24, {0, 0, 0x10, 0, 0, 0, 0x10, 0});
    const Bytes style = bytes_of({0xFF, 0x52, 0, 12, 0});
    const auto at = std::search(precincts.begin(), precincts.end(), style.begin(), style.end()) - precincts.begin();
    overwrite(precincts, static_cast<std::size_t>(at) + 3, {14, 1});  // two bytes more: a precinct for each sample
    precincts.insert(precincts.begin() + at + 14, 2, std::byte{0});
    const AddressLimit limit(std::size_t{64} << 20);
    const std::pair<const Bytes*, const char*> bombs[] = {{&gif, "65535 x 65535"},
                                                          {&sizes, "2147483647 x 2147483647"},
                                                          {&tiles, "expected tiles that"},
                                                          {&precincts, "expected precincts that"}};
    for (const auto& [bytes, words] : bombs) {
        EXPECT_THAT(error_of([bytes = bytes] { decode(*bytes); }), HasSubstr(words));
        EXPECT_THAT(error_of([bytes = bytes] { Decoder().info(*bytes); }), HasSubstr(words));
    }
}

}  // namespace
}  // namespace stoker

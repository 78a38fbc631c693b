// JPEG 2000 and JPEG XL whose small headers promise many layers, code blocks or pixels, or lack tiles. The files are
// made here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codecs/fixtures.h"
#include "stoker/codecs/j2k_header.h"
#include "support/address_limit.h"
#include "support/memory_room.h"

namespace stoker {
namespace {

using namespace stoker::testing;
using ::testing::HasSubstr;

Bytes number(std::uint32_t value, int size) {
    Bytes bytes;
    append_number(bytes, value, size, true);
    return bytes;
}

Bytes segment(std::uint32_t marker, const Bytes& content) {
    return joined({number(marker, 2), number(static_cast<std::uint32_t>(content.size()) + 2, 2), content});
}

// One channel of 8 bits.
Bytes sizes(std::uint32_t width, std::uint32_t height, std::uint32_t tile_width) {
    const Bytes none(8);
    return segment(0xFF51, joined({number(0, 2), number(width, 4), number(height, 4), none, number(tile_width, 4),
                                   number(height, 4), none, bytes_of({0, 1, 7, 1, 1})}));
}

struct Style {
    std::uint32_t layers = 1;
    int block_width = 4;  // 2^(this + 2)
    int block_height = 4;
    bool small_precincts = false;  // 2 x 2
};

Bytes style(const Style& style) {
    Bytes content = joined({bytes_of({style.small_precincts ? 1 : 0, 0}), number(style.layers, 2),
                            bytes_of({0, 0, style.block_width, style.block_height, 0, 1})});
    if (style.small_precincts) {
        content.push_back(std::byte{0x11});
    }
    return segment(0xFF52, content);
}

// A part of a tile, with `header` and `data`.
Bytes part(std::uint32_t tile, const Bytes& header, const Bytes& data) {
    const auto size = static_cast<std::uint32_t>(14 + header.size() + data.size());
    return joined({segment(0xFF90, joined({number(tile, 2), number(size, 4), bytes_of({0, 1})})), header,
                   bytes_of({0xFF, 0x93}), data});
}

Bytes j2k(const Bytes& header, const Bytes& parts) {
    const Bytes steps = segment(0xFF5C, bytes_of({0x40, 0x40}));
    return joined({bytes_of({0xFF, 0x4F}), header, steps, parts, bytes_of({0xFF, 0xD9})});
}

void expect_refused(const Bytes& bytes, const char* words) {
    const AddressLimit limit(std::size_t{64} << 20);
    EXPECT_THAT(error_of([&] { decode(bytes); }), HasSubstr(words));
    EXPECT_THAT(error_of([&] { Decoder().info(bytes); }), HasSubstr(words));
}

TEST(Jpeg2000Test, PacketsNeedBytes) {
    const Bytes data(1100);  // 1024 precincts
    const Bytes size = sizes(64, 64, 64);
    const Style many{.layers = 65535, .small_precincts = true};
    const Style one{.small_precincts = true};
    EXPECT_LT(read_j2k_header(j2k(joined({size, style(one)}), part(0, {}, data))).memory, 2'000'000U);
    expect_refused(j2k(joined({size, style(many)}), part(0, {}, data)),
                   "expected precincts that 1182 bytes can hold, got 1024 of 65535 layers");
    expect_refused(j2k(joined({size, style(one)}), part(0, style(many), data)), "got 1024 of 65535 layers");
    // Those that fit are counted: 65536 x 2 bytes for an only precinct.
    const Bytes layers = j2k(joined({size, style({.layers = 65535})}), part(0, {}, Bytes(65535)));
    EXPECT_GT(read_j2k_header(layers).memory, 2U * 65536 + 65535);
}

TEST(Jpeg2000Test, CodeBlocksAreCounted) {
    constexpr std::uint32_t kWidth = 1 << 20;
    const Bytes size = sizes(kWidth, 1, kWidth);
    const auto memory = [&](const Style& blocks) {
        return read_j2k_header(j2k(joined({size, style(blocks)}), part(0, {}, Bytes(600)))).memory;
    };
    EXPECT_LT(memory({}), 20'000'000U);  // 16384 blocks
    EXPECT_GT(memory({.block_width = 0, .block_height = 8}), kWidth / 4 * 400U);
    const Bytes thin = j2k(joined({size, style({.block_width = 0, .block_height = 8})}), part(0, {}, Bytes(600)));
    RowByRow rows;
    const MemoryRoom room(64 * kMiB);
    EXPECT_THROW(Decoder().decode(thin, rows), MemoryError);
}

TEST(Jpeg2000Test, EachTileIsThere) {
    const Bytes header = joined({sizes(128, 64, 64), style({})});
    const Bytes data(4);
    const Bytes both = joined({part(0, {}, data), part(1, {}, data)});
    EXPECT_EQ(Decoder().info(j2k(header, both)).width, 128);
    expect_refused(j2k(header, part(0, {}, data)), "expected 2 tiles, got none at 1");
    expect_refused(j2k(header, joined({both, part(2, {}, data)})), "expected one of 2 tiles, got tile 2");
}

// OpenJPEG would find other markers than we do.
TEST(Jpeg2000Test, MarkersAreNotHidden) {
    const Bytes header = joined({sizes(64, 64, 64), style({})});
    const Bytes data(4);
    const Bytes unknown = segment(0xFF7A, style({.layers = 65535}));
    expect_refused(j2k(joined({header, unknown}), part(0, {}, data)), "expected a marker of JPEG 2000, got ff7a");
    EXPECT_EQ(Decoder().info(j2k(header, part(0, {}, {}))).width, 64);  // nothing follows SOD
    expect_refused(j2k(header, joined({part(0, {}, {}), style({.layers = 65535})})), "got ff52");
    expect_refused(j2k(header, joined({part(0, {}, data), bytes_of({0xFF, 0x93, 0, 0})})), "got ff93");
}

// 16 x 16 pixels, below them a layer of 40 x 30.
Bytes two_layers() {
    return bytes_of({0xFF, 0x0A, 0x43, 0x40, 0x24, 0x08, 0x22, 0x00, 0x00, 0x80, 0x82, 0x07, 0x02,
                     0x00, 0x4C, 0x00, 0x4B, 0x12, 0xA5, 0x42, 0x05, 0x52, 0x2C, 0xDB, 0xFF, 0x17,
                     0x00, 0x08, 0xE8, 0xDC, 0x00, 0x80, 0x3E, 0x11, 0x05, 0x08, 0x02, 0x01, 0x00,
                     0x24, 0x00, 0x4B, 0x12, 0xA5, 0x42, 0x85, 0x24, 0x2C, 0x00, 0x10});
}

// The start of another, whose first layer has 1026 x 1024 pixels.
Bytes large_layer() {
    return bytes_of({0xFF, 0x0A, 0x43, 0x40, 0x24, 0x08, 0x26, 0x00, 0x00, 0x04, 0xB0, 0x04, 0x86, 0x00, 0x00, 0x5C,
                     0x01, 0x00, 0x00, 0x40, 0x12, 0x14, 0x00, 0x4B, 0x12, 0xA5, 0x42, 0x05, 0x52, 0x2C, 0xFB, 0xFF});
}

TEST(JxlTest, LayersAreMeasuredBeforeTheyAreDecoded) {
    Image image;
    try {
        image = decode(two_layers());
    } catch (const IoError& error) {
        GTEST_SKIP() << error.what();
    }
    EXPECT_EQ(image.height(), 16);
    EXPECT_EQ(image.width(), 16);
    EXPECT_THAT(error_of([] { decode(large_layer()); }),
                HasSubstr("expected layers of at most 1049600 pixels, got 1026 x 1024"));
}

}  // namespace
}  // namespace stoker

// Items of AVIF and HEIC files that libheif must not see: ambiguous lists, references in circles, grids of a wrong
// size. The files are made here. Those that harm libheif 1.15 are only read by read_heif_items.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codecs/fixtures.h"
#include "stoker/base/file.h"
#include "stoker/codecs/heif_coded_size.h"
#include "stoker/codecs/heif_items.h"
#include "support/paths.h"

namespace stoker {
namespace {

using namespace stoker::testing;
using ::testing::HasSubstr;

Bytes number(std::uint64_t value, int size) {
    Bytes bytes;
    append_number(bytes, value, size, true);
    return bytes;
}

Bytes box(std::string_view type, const Bytes& content) {
    return joined({number(content.size() + 8, 4), bytes_of(type), content});
}

Bytes full_box(std::string_view type, const Bytes& content, int version = 0) {
    return box(type, joined({number(static_cast<std::uint64_t>(version) << 24, 4), content}));
}

Bytes size_box(std::uint64_t width, std::uint64_t height) {
    return full_box("ispe", joined({number(width, 4), number(height, 4)}));
}

Bytes grid_of(int columns, std::uint64_t width, std::uint64_t height) {
    return joined({bytes_of({0, 1, 0, columns - 1}), number(width, 4), number(height, 4)});
}

// A sequence header of a still image.
Bytes av1_header(std::uint64_t width, std::uint64_t height) {
    const std::uint64_t fields =
        std::uint64_t{0x60} << 40 | std::uint64_t{0xFF} << 32 | (width - 1) << 16 | (height - 1);
    return joined({bytes_of({0x0A, 7}), number(fields << 6, 7)});
}

struct Item {
    int number;
    std::string type;
    Bytes content = {};
    std::vector<int> properties = {};
};

struct Reference {
    std::string type;
    int from;
    std::vector<int> to;
};

// A file whose first item is the primary one. Its lists may be changed before they are joined.
struct HeifParts {
    HeifParts(const std::vector<Item>& items, const std::vector<Reference>& references,
              const std::vector<Bytes>& properties = {size_box(16, 16)}) {
        Bytes entries;
        Bytes locations = number(items.size(), 2);
        Bytes associations = number(items.size(), 4);
        Bytes content;
        for (const Item& item : items) {
            const auto id = static_cast<std::uint64_t>(item.number);
            entries =
                joined({entries,
                        full_box("infe", joined({number(id, 2), number(0, 2), bytes_of(item.type), number(0, 1)}), 2)});
            locations = joined({locations, number(id, 2), number(1, 2), number(0, 2), number(1, 2),
                                number(content.size(), 4), number(item.content.size(), 4)});
            content = joined({content, item.content});
            associations = joined({associations, number(id, 2), number(item.properties.size(), 1)});
            for (const int property : item.properties) {
                associations.push_back(static_cast<std::byte>(property));
            }
        }
        Bytes links;
        for (const Reference& reference : references) {
            Bytes link =
                joined({number(static_cast<std::uint64_t>(reference.from), 2), number(reference.to.size(), 2)});
            for (const int to : reference.to) {
                append_number(link, static_cast<std::uint64_t>(to), 2, true);
            }
            links = joined({links, box(reference.type, link)});
        }
        Bytes all;
        for (const Bytes& property : properties) {
            all = joined({all, property});
        }
        pitm = full_box("pitm", number(static_cast<std::uint64_t>(items[0].number), 2));
        iloc = full_box("iloc", joined({bytes_of({0x44, 0}), locations}), 1);
        iinf = full_box("iinf", joined({number(items.size(), 2), entries}));
        ipco = box("ipco", all);
        ipma = full_box("ipma", associations);
        iref = full_box("iref", links);
        idat = box("idat", content);
    }

    Bytes file() const {
        const Bytes handler = full_box("hdlr", joined({number(0, 4), bytes_of("pict"), Bytes(13)}));
        const Bytes meta =
            full_box("meta", joined({handler, pitm, iloc, iinf, box("iprp", joined({ipco, ipma})), iref, idat, more}));
        const Bytes brands = joined({bytes_of("heic"), number(0, 4), bytes_of("mif1heic")});
        return joined({box("ftyp", brands), meta, behind, box("mdat", Bytes(8))});
    }

    Bytes pitm, iloc, iinf, ipco, ipma, iref, idat;
    Bytes more;    // boxes in `meta`
    Bytes behind;  // boxes after it
};

std::string refusal(const Bytes& file) {
    return error_of([&] { coded_sizes(read_heif_items(file)); });
}

const std::vector<Item> kOne = {{1, "av01", av1_header(16, 16), {1}}};

TEST(HeifItemsTest, SizesAreThoseOfThePrimaryImage) {
    const Bytes large = av1_header(4096, 4096);
    const Bytes tile = av1_header(32, 16);
    const HeifParts parts(
        {{1, "grid", grid_of(2, 60, 16)},
         {2, "av01", tile},
         {3, "av01", tile},
         {4, "av01", large},
         {5, "av01", tile},
         {6, "Exif"}},
        {{"dimg", 1, {2, 3}}, {"thmb", 4, {1}}, {"auxl", 5, {1}}, {"prem", 1, {5}}, {"cdsc", 6, {1}}});
    const Bytes file = parts.file();
    const HeifItems items = read_heif_items(file);
    EXPECT_EQ(items.primary, 1U);
    EXPECT_EQ(items.all.size(), 6U);
    EXPECT_EQ(items.shown().tiles, (std::vector<std::uint64_t>{2, 3}));
    EXPECT_EQ(items.shown().auxiliary, std::vector<std::uint64_t>{5});
    EXPECT_EQ(coded_sizes(items).largest, 32U * 16);
    EXPECT_EQ(coded_sizes(items).canvases, 60U * 16);
}

TEST(HeifItemsTest, BoxesAreUnique) {
    const HeifParts good(kOne, {});
    ASSERT_EQ(refusal(good.file()), "no DataError");
    for (const Bytes& twice : {good.pitm, good.iloc, good.iinf, good.iref, good.idat, box("iprp", {})}) {
        HeifParts parts = good;
        parts.more = twice;
        EXPECT_THAT(refusal(parts.file()), HasSubstr("several boxes"));
    }
    HeifParts parts = good;
    parts.behind = full_box("meta", {});
    EXPECT_THAT(refusal(parts.file()), HasSubstr("several boxes 'meta'"));
    parts = good;
    parts.ipma = joined({good.ipma, good.ipco});
    EXPECT_THAT(refusal(parts.file()), HasSubstr("several boxes 'ipco'"));
    EXPECT_THAT(refusal(HeifParts({kOne[0], kOne[0]}, {}).file()), HasSubstr("several items of one number"));
}

TEST(HeifItemsTest, ListsAreWhole) {
    const HeifParts good(kOne, {});
    Bytes many;
    for (std::size_t i = 0; i < kMostBoxes; ++i) {
        const Bytes empty = box("free", {});
        many.insert(many.end(), empty.begin(), empty.end());
    }
    HeifParts parts = good;
    parts.behind = many;
    EXPECT_THAT(refusal(parts.file()), HasSubstr("too many boxes"));
    parts = good;
    parts.more = many;
    EXPECT_THAT(refusal(parts.file()), HasSubstr("too many boxes"));
    parts = good;
    parts.ipco = box("ipco", many);
    EXPECT_THAT(refusal(parts.file()), HasSubstr("too many boxes"));
    parts = good;
    parts.more = bytes_of({0, 0, 0, 4, 'f', 'r', 'e', 'e'});
    EXPECT_THAT(refusal(parts.file()), HasSubstr("a damaged box"));
    parts = good;
    parts.iinf[13] = std::byte{2};  // items
    EXPECT_THAT(refusal(parts.file()), HasSubstr("a damaged list of items"));
    parts = good;
    parts.iref = full_box("iref", box("cdsc", bytes_of({0, 2, 0, 1, 0, 1, 0, 0})));  // too large
    EXPECT_THAT(refusal(parts.file()), HasSubstr("a damaged list of references"));
}

TEST(HeifItemsTest, PlacesAreUnambiguous) {
    const HeifParts good(kOne, {});
    const auto changed = [&](std::size_t at, int value) {
        HeifParts parts = good;
        parts.iloc.at(at) = static_cast<std::byte>(value);
        return refusal(parts.file());
    };
    EXPECT_THAT(changed(12, 0x24), HasSubstr("a size that is not 0, 4 or 8"));
    EXPECT_THAT(changed(12, 0x4F), HasSubstr("a size that is not 0, 4 or 8"));
    EXPECT_THAT(changed(13, 0x30), HasSubstr("a size that is not 0, 4 or 8"));
    EXPECT_THAT(changed(13, 0x04), HasSubstr("a size that is not 0, 4 or 8"));  // of an index
    EXPECT_THAT(changed(15, 2), HasSubstr("a damaged list of places"));
    EXPECT_THAT(changed(19, 2), HasSubstr("content in other items"));
    EXPECT_THAT(changed(27, 99), HasSubstr("content behind the end"));
    EXPECT_THAT(changed(31, 0), HasSubstr("content without a length"));
    HeifParts twice = good;
    twice.iloc = joined({good.iloc, std::span(good.iloc).subspan(16)});
    twice.iloc[3] = static_cast<std::byte>(twice.iloc.size());
    twice.iloc[15] = std::byte{2};
    EXPECT_THAT(refusal(twice.file()), HasSubstr("several places of one item"));
}

TEST(HeifItemsTest, ReferencesInCirclesAreRefused) {
    const Item first{1, "grid", grid_of(1, 16, 16)};
    const Item second{2, "grid", grid_of(1, 16, 16)};
    const Item coded{3, "av01", av1_header(16, 16)};
    const auto circle = [&](const std::vector<Reference>& references) {
        const Bytes file = HeifParts({first, second, coded}, references).file();
        return error_of([&] { read_heif_items(file); });
    };
    const Reference tile{"dimg", 1, {3}};
    const Reference other{"dimg", 2, {3}};
    EXPECT_EQ(circle({tile, other}), "no DataError");
    EXPECT_THAT(circle({{"dimg", 1, {2}}, {"dimg", 2, {1}}}), HasSubstr("in a circle"));
    EXPECT_THAT(circle({tile, other, {"auxl", 2, {3}}}), HasSubstr("in a circle"));  // alpha of a tile of it
    EXPECT_THAT(circle({tile, other, {"thmb", 2, {1}}, {"thmb", 1, {2}}}), HasSubstr("in a circle"));
    EXPECT_THAT(circle({tile, other, {"cdsc", 3, {3}}}), HasSubstr("refers to itself"));
    EXPECT_THAT(circle({{"dimg", 1, {1}}, other}), HasSubstr("refers to itself"));
    EXPECT_THAT(circle({{"dimg", 1, {2}}, other}), HasSubstr("a grid of other than coded images"));
    EXPECT_THAT(circle({other}), HasSubstr("a grid of other than coded images"));
}

TEST(HeifItemsTest, DerivedImagesAreGrids) {
    for (const char* type : {"iden", "iovl"}) {
        const Bytes file = HeifParts({{2, type}, kOne[0]}, {{"dimg", 2, {1}}}).file();
        EXPECT_THAT(error_of([&] { read_heif_items(file); }), HasSubstr("derived images of another kind than grids"));
    }
    EXPECT_THAT(refusal(HeifParts({{1, "vvc1"}}, {}).file()), HasSubstr("neither coded nor a grid"));
}

TEST(HeifItemsTest, PixelsAreBounded) {
    const auto grid = [](std::uint64_t side, const Bytes& tile, std::size_t count) {
        return refusal(HeifParts({{1, "grid", grid_of(1, side, side)}, {2, "av01", tile}},
                                 {{"dimg", 1, std::vector<int>(count, 2)}})
                           .file());
    };
    EXPECT_EQ(grid(16, av1_header(16, 16), 5), "no DataError");
    EXPECT_THAT(grid(16385, av1_header(16, 16), 1), HasSubstr("pictures of more than"));
    EXPECT_THAT(grid(0xFFFFFFFF, av1_header(16, 16), 1), HasSubstr("pictures of more than"));
    EXPECT_EQ(grid(16, av1_header(16384, 8192), 7), "no DataError");
    EXPECT_THAT(grid(16, av1_header(16384, 8192), 9), HasSubstr("together"));
    EXPECT_THAT(grid(16, Bytes(8), 1), HasSubstr("without the header"));
    std::vector<Item> chain = kOne;
    std::vector<Reference> alphas;
    for (int i = 2; i < 20; ++i) {
        chain.push_back({i, "av01", av1_header(16, 16)});
        alphas.push_back({"auxl", i, {i - 1}});
    }
    EXPECT_THAT(refusal(HeifParts(chain, alphas).file()), HasSubstr("too deep"));
}

// A grid of the picture of colors.heic, twice.
HeifParts real_grid(std::uint64_t width) {
    const MappedFile mapped(source_dir() / "tests/codecs/files/colors.heic");
    const std::span<const std::byte> meta = find_box(mapped.bytes(), "meta", 4);
    const std::span<const std::byte> setup = find_box(find_box(find_box(meta, "iprp"), "ipco"), "hvcC");
    const std::span<const std::byte> coded = find_box(mapped.bytes(), "mdat");
    const Bytes content(coded.begin(), coded.end());
    return {{{1, "grid", grid_of(2, width, 64), {3}}, {2, "hvc1", content, {1, 2}}, {3, "hvc1", content, {1, 2}}},
            {{"dimg", 1, {2, 3}}},
            {size_box(64, 64), box("hvcC", {setup.begin(), setup.end()}), size_box(128, 64)}};
}

TEST(HeifItemsTest, GridsAreDecoded) {
    const Bytes file = real_grid(128).file();
    Image image;
    try {
        image = decode(file);
    } catch (const IoError& error) {
        GTEST_SKIP() << error.what();
    }
    ASSERT_EQ(image.width(), 128);
    ASSERT_EQ(image.height(), 64);
    EXPECT_TRUE(same_pixels(image.view().crop({0, 0, 64, 64}), image.view().crop({0, 64, 64, 64})));
    const std::string got = "a grid of 20000 x 64, not of 128 x 64 as its header says";
    EXPECT_THAT(error_of([] { Decoder().info(real_grid(20000).file()); }), HasSubstr(got));
    HeifParts twice = real_grid(128);
    twice.behind = full_box("meta", {});
    EXPECT_THAT(error_of([&] { Decoder().info(twice.file()); }), HasSubstr("several boxes 'meta'"));
}

}  // namespace
}  // namespace stoker

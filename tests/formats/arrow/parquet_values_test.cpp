// Values of Parquet pages: in the map, copied, and entries of a dictionary, which are copied once.
#include "stoker/formats/arrow/parquet_values.h"

#include <gtest/gtest.h>

#include <string>

namespace stoker {
namespace {

std::span<const std::byte> as_span(const std::string& text) {
    return std::as_bytes(std::span(text));
}

void take(TakenValues& taken, const std::string& text, std::size_t begin, std::size_t size) {
    taken.take(reinterpret_cast<const std::uint8_t*>(text.data()) + begin, static_cast<std::int64_t>(size));
}

std::string text_of(const ParquetValues& values, std::size_t at) {
    const ParquetValues::Piece& piece = values.pieces[at];
    EXPECT_EQ(piece.copied, 1U);
    return {reinterpret_cast<const char*>(values.bytes.data()) + piece.begin, static_cast<std::size_t>(piece.size)};
}

TEST(TakenValues, AreUsedInTheMapOrCopied) {
    const std::string map(100, 'm');
    const std::string other = "others";
    TakenValues taken(as_span(map), 4, 0);
    take(taken, map, 7, 20);
    take(taken, other, 0, 6);
    taken.take(nullptr, -1);
    take(taken, other, 0, 0);
    const ParquetValues values = std::move(taken).values();
    ASSERT_EQ(values.pieces.size(), 4U);
    EXPECT_EQ(values.pieces[0].copied, 0U);
    EXPECT_EQ(values.pieces[0].begin, 7U);
    EXPECT_EQ(values.pieces[0].size, 20);
    EXPECT_EQ(text_of(values, 1), "others");
    EXPECT_EQ(values.pieces[2].size, -1);
    EXPECT_EQ(values.pieces[3].size, 0);
}

TEST(TakenValues, EntriesOfADictionaryAreCopiedOnce) {
    std::string page = "firstsecond";
    TakenValues taken({}, 5, 11);
    take(taken, page, 0, 5);
    take(taken, page, 5, 6);
    take(taken, page, 0, 5);
    page = "another one";  // the next page, at the same address
    take(taken, page, 0, 7);
    take(taken, page, 0, 7);
    const ParquetValues values = std::move(taken).values();
    EXPECT_EQ(values.bytes.size(), 18U);
    EXPECT_EQ(text_of(values, 0), "first");
    EXPECT_EQ(text_of(values, 1), "second");
    EXPECT_EQ(text_of(values, 2), "first");
    EXPECT_EQ(text_of(values, 3), "another");
    EXPECT_EQ(text_of(values, 4), "another");
}

TEST(TakenValues, KeepNoMemoryThatTheyDoNotNeed) {
    TakenValues taken({}, 1, std::uint64_t{64} << 20);
    const std::string text = "value";
    take(taken, text, 0, 5);
    EXPECT_FALSE(taken.too_large());
    EXPECT_LT(std::move(taken).values().size(), 4096U);
}

}  // namespace
}  // namespace stoker

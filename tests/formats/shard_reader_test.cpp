// Samples in shards: places, reads that fail their check, and reads ahead.
#include "stoker/formats/shard_reader.h"

#include <gtest/gtest.h>

#include <memory>

#include "formats/counting_file.h"

namespace stoker {
namespace {

using testing::CountingFile;

constexpr std::int64_t kSamples[] = {2, 0, 3};
const std::string kContent = "0123456789";

std::unique_ptr<ShardReader> reader_of(CountingFile::Counts& counts, bool remote) {
    const std::string folder = remote ? "https://host/" : "";
    auto reader = std::make_unique<ShardReader>(
        std::vector{folder + "a", folder + "b", folder + "c"}, [&counts, remote](const std::string& name) {
            return std::make_unique<CountingFile>(kContent, remote, counts, name);
        });
    reader->index([](std::size_t shard, const ByteFile& /*file*/) { return kSamples[shard]; });
    return reader;
}

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(ShardReader, FindsTheShardOfEachSample) {
    CountingFile::Counts counts;
    const auto reader = reader_of(counts, false);
    EXPECT_EQ(reader->size(), 5);
    EXPECT_EQ(reader->bytes(), 30);
    std::vector<std::pair<std::size_t, std::int64_t>> places;
    for (std::int64_t i = 0; i < reader->size(); ++i) {
        places.emplace_back(reader->place(i).shard, reader->place(i).sample);
    }
    EXPECT_EQ(places, (std::vector<std::pair<std::size_t, std::int64_t>>{{0, 0}, {0, 1}, {2, 0}, {2, 1}, {2, 2}}));
}

TEST(ShardReader, IndexesAgain) {
    CountingFile::Counts counts;
    const auto reader = reader_of(counts, false);
    reader->index([](std::size_t /*shard*/, const ByteFile& file) { return static_cast<std::int64_t>(file.size()); });
    EXPECT_EQ(reader->size(), 30);
    EXPECT_EQ(reader->bytes(), 30);
}

TEST(ShardReader, ReadsRangesAndRefusesThoseOutsideOfTheFile) {
    CountingFile::Counts counts;
    const auto reader = reader_of(counts, false);
    Buffer storage;
    EXPECT_EQ(text_of(reader->read(1, {.offset = 3, .size = 4}, storage)), "3456");
    EXPECT_TRUE(reader->read(1, {.offset = 10, .size = 0}, storage).empty());
    EXPECT_THROW(reader->read(1, {.offset = 3, .size = 8}, storage), DataError);
    EXPECT_THROW(reader->read(1, {.offset = 3, .size = ~std::uint64_t{0}}, storage), DataError);
    EXPECT_THROW(reader->read(1, {.offset = 11, .size = 0}, storage), DataError);
}

TEST(ShardReader, DamagedBytesOfARemoteFileAreFetchedOnceMore) {
    for (const bool remote : {true, false}) {
        CountingFile::Counts counts;
        const auto reader = reader_of(counts, remote);
        counts.damaged_at = 4;
        Buffer storage;
        const auto checked = [](std::span<const std::byte> bytes) {
            return text_of(bytes) == "345"
                       ? text_of(bytes)
                       : throw DataError({}, {.where = "x", .expected = "345", .got = "other bytes"});
        };
        const auto read = [&] { return reader->read_checked(2, {.offset = 3, .size = 3}, storage, checked); };
        if (remote) {
            EXPECT_EQ(read(), "345");
        } else {
            EXPECT_THROW(read(), DataError);
        }
        EXPECT_EQ(counts.anew, remote ? 1U : 0U);
    }
}

TEST(ShardReader, ReadsAheadOfRemoteNeighboursInOneRequest) {
    for (const bool remote : {true, false}) {
        CountingFile::Counts counts;
        const auto reader = reader_of(counts, remote);
        const std::int64_t indices[] = {4, 0, 3, 1};
        std::vector<std::int64_t> asked;
        reader->prefetch(indices, [&](const ShardReader::Place& at, std::vector<ByteRange>& ranges) {
            asked.push_back(static_cast<std::int64_t>(at.shard) * 10 + at.sample);
            ranges.push_back({.offset = static_cast<std::uint64_t>(2 * at.sample), .size = at.sample == 0 ? 0U : 2U});
        });
        EXPECT_EQ(counts.ahead, remote ? 2U : 0U);  // one range of each shard
        EXPECT_EQ(asked,
                  remote ? (std::vector<std::int64_t>{0, 1, 21, 22}) : (std::vector<std::int64_t>{22, 0, 21, 1}));
    }
}

}  // namespace
}  // namespace stoker

// MDS shards, plain and compressed: columns of each encoding, choice of image and label, damage of index and samples.
// tests/python/test_format_shards.py compares with the library.
#include "stoker/formats/mds/mds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>
#include <vector>

#include "formats/field_value_support.h"
#include "formats/shard_support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/memory_limit.h"
#include "stoker/formats/index_json.h"
#include "stoker/formats/open.h"
#include "support/temp_dir.h"

namespace stoker::mds_test {
namespace {

using ::testing::ElementsAre;
using namespace stoker::testing;

const std::string kPng = "\x89PNG\r\n\x1a\n and more";

class Mds : public ::testing::Test {
  protected:
    // One shard of these samples.
    void write(const std::vector<MdsColumn>& columns, const std::vector<std::string>& samples) {
        const std::string shard = shard_of(samples, "{}");
        write_file(dir_ / "x.mds", shard);
        write_file(dir_ / "index.json", mds_index(columns, {{.samples = samples.size(), .raw_size = shard.size()}}));
    }
    std::unique_ptr<Dataset> open(FieldNames fields = {}) const {
        return open_dataset(dir_.path().string(), Split::train, {.fields = std::move(fields)});
    }
    // The value of the only column, next to an image.
    FieldValue& value(const std::string& encoding, const std::string& bytes, std::optional<FieldKind> kind = {}) {
        write({{"image", "png"}, {"v", encoding}}, {columns_of({kPng, bytes})});
        dataset_ = open({.image = {}, .label = {}, .more = {{.name = "v", .kind = kind}}});
        dataset_->read(0, sample_);
        return sample_.field(0);
    }

    TempDir dir_;
    std::unique_ptr<Dataset> dataset_;
    Sample sample_;
};

TEST_F(Mds, FixedColumnsHaveNoSize) {
    write({{"image", "jpeg"}, {"label", "int", "8"}},
          {columns_of({kPng, little_endian(7, 8)}).erase(4, 4), columns_of({kPng, little_endian(9, 8)}).erase(4, 4)});
    const auto dataset = open();
    EXPECT_EQ(dataset->size(), 2);
    dataset->read(1, sample_);
    EXPECT_EQ(sample_.label, 9);
    EXPECT_EQ(as_text(sample_.bytes), kPng);
    EXPECT_TRUE(sample_.encoded);
    EXPECT_EQ(dataset->key(1), "x.mds/1");
    EXPECT_TRUE(dataset->shard_sizes().empty());
}

TEST_F(Mds, ArraysInThreeForms) {
    const std::string elements = little_endian(1, 2) + little_endian(2, 2) + little_endian(0xFFFF, 2);
    EXPECT_THAT(numbers_of<std::int16_t>(value("ndarray", std::string("\x11\x04\x03") + elements)),
                ElementsAre(1, 2, -1));
    EXPECT_EQ(dataset_->fields()[0].shape, Shape{3});
    EXPECT_THAT(numbers_of<std::int16_t>(value("ndarray:int16", std::string("\x04\x03") + elements)),
                ElementsAre(1, 2, -1));
    EXPECT_THAT(numbers_of<std::int16_t>(value("ndarray:int16:3,1", elements)), ElementsAre(1, 2, -1));
    EXPECT_EQ(dataset_->fields()[0].shape, (Shape{3, 1}));
    EXPECT_THAT(numbers_of<std::int64_t>(value("ndarray:uint32", std::string("\x04\x01") + std::string(4, '\xFF'))),
                ElementsAre(4294967295));
}

TEST_F(Mds, NumbersAsText) {
    EXPECT_THAT(numbers_of<double>(value("str_decimal", "-1.25")), ElementsAre(-1.25));
    EXPECT_THAT(numbers_of<std::int64_t>(value("str_int", "12", FieldKind::label)), ElementsAre(12));
    EXPECT_THAT(numbers_of<double>(value("json", "[1, 2.5]")), ElementsAre(1, 2.5));
    EXPECT_THROW(value("str_float", "many", FieldKind::value), DataError);
}

TEST_F(Mds, RawPixels) {
    const auto pillow = [](int width, int height, const std::string& mode, const std::string& pixels) {
        return little_endian(static_cast<std::uint64_t>(width), 4) +
               little_endian(static_cast<std::uint64_t>(height), 4) + little_endian(mode.size(), 4) + mode + pixels;
    };
    const FieldValue& grey = value("pil", pillow(2, 3, "L", "abcdef"), FieldKind::image);
    EXPECT_EQ(grey.width, 2);
    EXPECT_EQ(grey.height, 3);
    EXPECT_EQ(as_text(grey.bytes), "abcdef");
    EXPECT_EQ(value("pil", pillow(1, 1, "RGB", "abc"), FieldKind::image).channels, 3);
    EXPECT_EQ(value("pil", pillow(1, 1, "P", "a"), FieldKind::mask).channels, 1);
    EXPECT_THROW(value("pil", pillow(1, 1, "P", "a"), FieldKind::image), DataError);
    EXPECT_THROW(value("pil", pillow(1, 1, "CMYK", "abcd"), FieldKind::image), DataError);
    EXPECT_THROW(value("pil", pillow(2, 1, "L", "a"), FieldKind::image), DataError);
    EXPECT_THROW(value("pil", pillow(1 << 30, 1 << 30, "L", ""), FieldKind::image), DataError);
}

TEST_F(Mds, ListsOfImagesAreClips) {
    const std::string two =
        little_endian(2, 4) + little_endian(kPng.size(), 4) + little_endian(kPng.size() + 1, 4) + kPng + kPng + "!";
    for (const auto& [encoding, bytes] :
         {std::pair<std::string, std::string>("jpegarray", two), {"list[png]", little_endian(0, 4) + two}}) {
        const FieldValue& clip = value(encoding, bytes);
        ASSERT_EQ(clip.frames.size(), 2U);
        EXPECT_EQ(clip.clip_frames, 2);
        EXPECT_EQ(as_text(clip.frames[1].bytes), kPng + "!");
    }
    EXPECT_THROW(value("jpegarray", little_endian(1U << 30, 4)), DataError);
    EXPECT_THROW(value("jpegarray", little_endian(1, 4) + little_endian(99, 4) + kPng), DataError);
    EXPECT_THROW(value("jpegarray", little_endian(0, 4)), DataError);
}

TEST_F(Mds, TheImageIsChosenByItsEncoding) {
    write({{"a", "str"}, {"b", "jpeg"}, {"y", "uint8", "1"}}, {columns_of({"x", kPng}) + "\x03"});
    auto dataset = open();
    dataset->read(0, sample_);
    EXPECT_EQ(as_text(sample_.bytes), kPng);
    EXPECT_EQ(sample_.label, 3);

    write({{"raw", "bytes"}, {"text", "str"}}, {columns_of({kPng, "words"})});
    EXPECT_TRUE(open()->has_image());  // by its first bytes

    write({{"a", "jpeg"}, {"b", "jpeg"}}, {columns_of({kPng, kPng + "2"})});
    EXPECT_THROW(open(), DataError);
    dataset = open({.image = "b", .label = {}});
    dataset->read(0, sample_);
    EXPECT_EQ(as_text(sample_.bytes), kPng + "2");
}

TEST_F(Mds, TheImageIsChosenBySamplesThatCanBeRead) {
    write({{"raw", "bytes"}, {"text", "str"}},
          {"", little_endian(1000, 4) + little_endian(5, 4) + kPng, columns_of({kPng, "words"})});
    const auto dataset = open();
    EXPECT_TRUE(dataset->has_image());
    EXPECT_NO_THROW(dataset->read(2, sample_));
    EXPECT_THROW(dataset->read(0, sample_), DataError);
}

TEST_F(Mds, OnlyClassIndicesAreLabelsWithoutAName) {
    const auto label = [&](const std::string& encoding, const std::string& bytes, const FieldNames& fields = {}) {
        write({{"image", "png"}, {"y", encoding}},
              {"", columns_of({kPng, bytes}), columns_of({kPng, bytes}), columns_of({kPng, bytes})});
        open(fields)->read(1, sample_);
        return sample_.label;
    };
    EXPECT_EQ(label("str_int", "5"), 5);
    EXPECT_EQ(label("str_float", "0.5"), -1);
    EXPECT_EQ(label("ndarray:float32", std::string("\x04\x01") + std::string(4, '\1')), -1);
    EXPECT_EQ(label("ndarray:int8", std::string("\x04\x03\0\1\0", 5)), 1);  // one-hot
    EXPECT_EQ(label("ndarray:int8", std::string("\x04\x03\7\1\2", 5)), -1);
    EXPECT_EQ(label("str_int", "-7"), -1);
    EXPECT_THROW(label("str_float", "0.5", {.image = {}, .label = "y"}), DataError);
    EXPECT_THROW(label("str_int", "-7", {.image = {}, .label = "y"}), DataError);
    // Most are labels: the others are bad samples.
    write({{"image", "png"}, {"y", "str_int"}},
          {columns_of({kPng, "-3"}), columns_of({kPng, "4"}), columns_of({kPng, "4"})});
    const auto dataset = open();
    dataset->read(1, sample_);
    EXPECT_EQ(sample_.label, 4);
    EXPECT_THROW(dataset->read(0, sample_), DataError);
}

TEST_F(Mds, SamplesWithoutAnImage) {
    write({{"text", "str"}, {"ids", "ndarray:int32"}}, {columns_of({"words", std::string("\x04\x01\5\0\0\0", 6)})});
    EXPECT_THROW(open(), DataError);
    const auto dataset = open({.image = {}, .label = {}, .more = {{.name = "ids", .kind = FieldKind::tokens}}});
    EXPECT_FALSE(dataset->has_image());
    dataset->read(0, sample_);
    EXPECT_THAT(numbers_of<std::int32_t>(sample_.field(0)), ElementsAre(5));
}

TEST_F(Mds, CompressedShardsAreParts) {
    const std::string first = shard_of({columns_of({kPng}), columns_of({kPng + "1"})});
    const std::string second = shard_of({columns_of({kPng + "2"})});
    write_file(dir_ / "a.zstd", zstd_stored(first));
    write_file(dir_ / "b.zstd", zstd_stored(second));
    const std::vector<MdsShardText> shards = {{.file = "a",
                                               .samples = 2,
                                               .raw_size = first.size(),
                                               .packed_file = "a.zstd",
                                               .packed_size = first.size() + 12},
                                              {.file = "b",
                                               .samples = 1,
                                               .raw_size = second.size(),
                                               .packed_file = "b.zstd",
                                               .packed_size = second.size() + 12}};
    write_file(dir_ / "index.json", mds_index({{"image", "png"}}, shards));
    const auto dataset = open();
    EXPECT_THAT(dataset->shard_sizes(), ElementsAre(2, 1));
    for (const int index : {2, 0, 1}) {
        dataset->read(index, sample_);
        EXPECT_EQ(as_text(sample_.bytes), index == 0 ? kPng : kPng + std::to_string(index));
    }
    write_file(dir_ / "a", first);  // as a reader of the library leaves it
    write_file(dir_ / "b", second);
    EXPECT_TRUE(open()->shard_sizes().empty());
}

TEST_F(Mds, CountsThatACompressedShardCannotHave) {
    const std::string shard = shard_of({columns_of({kPng})});
    for (const char* compression : {"zstd", "gz"}) {
        write_file(dir_ / "x.mds.z", zstd_stored(shard));
        write_file(dir_ / "index.json", mds_index({{"image", "png"}}, {{.samples = 4294967295,
                                                                        .raw_size = shard.size(),
                                                                        .packed_file = "x.mds.z",
                                                                        .packed_size = shard.size() + 12,
                                                                        .compression = compression}}));
        EXPECT_THROW(open(), DataError) << compression;
    }
}

TEST_F(Mds, CompressedShardsThatDoNotFitIntoMemory) {
    const std::string shard = shard_of({columns_of({kPng})});
    write_file(dir_ / "x.mds.z", zstd_stored(shard));
    write_file(
        dir_ / "index.json",
        mds_index(
            {{"image", "png"}},
            {{.samples = 1, .raw_size = shard.size(), .packed_file = "x.mds.z", .packed_size = shard.size() + 12}}));
    EXPECT_EQ(open()->advice(), "");
    set_memory_limit(100);  // a quarter of it is for unpacked shards
    const auto dataset = open();
    set_memory_limit(0);
    EXPECT_NE(dataset->advice(), "");
    EXPECT_NO_THROW(dataset->read(0, sample_));
}

TEST_F(Mds, KeysOfAShardThatIsListedTwice) {
    const std::string shard = shard_of({columns_of({kPng})});
    write_file(dir_ / "x.mds", shard);
    write_file(dir_ / "index.json", mds_index({{"image", "png"}}, {{.samples = 1, .raw_size = shard.size()},
                                                                   {.samples = 1, .raw_size = shard.size()}}));
    EXPECT_NE(open()->key(0), open()->key(1));
}

TEST_F(Mds, ADamagedSampleIsABadSample) {
    write({{"image", "png"}}, {columns_of({kPng}), little_endian(1000, 4) + kPng, columns_of({kPng})});
    const auto dataset = open();
    EXPECT_NO_THROW(dataset->read(0, sample_));
    EXPECT_THROW(dataset->read(1, sample_), DataError);
    EXPECT_NO_THROW(dataset->read(2, sample_));
}

TEST_F(Mds, ADamagedTable) {
    write({{"image", "png"}}, {columns_of({kPng}), columns_of({kPng})});
    std::string shard = read_text(dir_ / "x.mds");
    shard[8] = '\1';  // the end of sample 0 lies before its beginning
    write_file(dir_ / "x.mds", shard);
    EXPECT_THROW(open()->read(0, sample_), DataError);
    shard[0] = '\7';
    write_file(dir_ / "x.mds", shard);
    EXPECT_THROW(open(), DataError);
}

TEST_F(Mds, NamesStayInTheFolder) {
    for (const char* name : {"../x.mds", "/etc/passwd", "a/../../x.mds", "http://host/x.mds", ""}) {
        write_file(dir_ / "index.json", mds_index({{"image", "png"}}, {{.file = name, .samples = 1}}));
        EXPECT_THROW(open(), DataError) << name;
    }
}

TEST(NextToIndex, NamesArePartsOfAPath) {
    const std::string folder = "https://host/a/";
    const std::string index = folder + "index.json?key=1";
    EXPECT_EQ(next_to_index(index, "b/x 1.mds"), folder + "b/x%201.mds?key=1");
    EXPECT_EQ(next_to_index(index, "%2e%2e/x?y#z"), folder + "%252e%252e/x%3Fy%23z?key=1");
    EXPECT_EQ(next_to_index("http://host/index.json", "%41"), "http://host/%2541");
    EXPECT_EQ(next_to_index("s3://bucket/index.json", "x?y#z%41"), "s3://bucket/x?y#z%41");  // keys, not URLs
    EXPECT_EQ(next_to_index("a/index.json", "x?y#z%41"), "a/x?y#z%41");
}

TEST_F(Mds, AnIndexThatCannotBeRead) {
    write({{"image", "png"}}, {columns_of({kPng})});
    rlimit files{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
    const rlimit none{.rlim_cur = 0, .rlim_max = files.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    bool refused = false;
    try {
        find_index(dir_.path().string(), Split::train);
    } catch (const IoError&) {
        refused = true;
    }
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
    EXPECT_TRUE(refused);
    EXPECT_FALSE(find_index((dir_ / "none").string(), Split::train));
    EXPECT_FALSE(find_index((dir_ / "none" / "index.json").string(), Split::train));
}

TEST_F(Mds, FoldersOfSplits) {
    for (const char* split : {"train", "val"}) {
        std::filesystem::create_directory(dir_ / split);
        const std::string shard = shard_of({columns_of({kPng + split})});
        write_file(dir_ / split / "x.mds", shard);
        write_file(dir_ / split / "index.json",
                   mds_index({{"image", "png"}}, {{.samples = 1, .raw_size = shard.size()}}));
    }
    const std::string data = dir_.path().string();
    EXPECT_TRUE(has_splits(data));
    dataset_ = open_dataset(data, Split::test);
    dataset_->read(0, sample_);
    EXPECT_EQ(as_text(sample_.bytes), kPng + "val");
    EXPECT_FALSE(has_splits(data + "/train"));
}

}  // namespace
}  // namespace stoker::mds_test

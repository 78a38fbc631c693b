// Members of WebDataset samples as further fields: each kind of member, lengths that differ, members that are missing,
// shards without images, the index and its cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "formats/arrays/npy_support.h"
#include "formats/field_value_support.h"
#include "formats/webdataset/tar_support.h"
#include "stoker/base/error.h"
#include "stoker/formats/arrays/npz_writer.h"
#include "stoker/formats/field_values.h"
#include "stoker/formats/webdataset/webdataset.h"
#include "support/memory_room.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using namespace stoker::testing;

const std::string kPng = "\x89PNG\r\n\x1a\n seg";

template <typename Number>
std::string npy_of(std::string_view descr, const Shape& shape, const std::vector<Number>& numbers) {
    return npy_header(descr, shape) +
           std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number));
}

class TarFields : public ::testing::Test {
  protected:
    TarFields() { ::setenv("STOKER_CACHE", (dir_ / "cache").c_str(), 1); }
    ~TarFields() override { ::unsetenv("STOKER_CACHE"); }

    WebDataset open(const std::string& members, std::vector<FieldRequest> more) const {
        write_file(dir_ / "x.tar", members + tar_end());
        return WebDataset((dir_ / "x.tar").string(), {.fields = {.image = "", .label = "", .more = std::move(more)}});
    }

    TempDir dir_;
};

TEST_F(TarFields, EachKindOfMember) {
    const std::string json =
        R"({"score": 0.5, "age": 7, "tags": [1, 0, 1], "box": [[1, 2, 3, 4.5]], "text": "two words"})";
    const std::string members =
        tar_member("a.jpg", "A") + tar_member("a.seg.png", kPng) + tar_member("a.cls", "1") +
        tar_member("a.cls2", " 42\n") + tar_member("a.txt", "2.25") + tar_member("a.json", json) +
        tar_member("a.vec.npy", npy_of<float>("<f4", {3}, {1, 2, 3})) + tar_member("a.raw", "any bytes");
    const auto dataset = open(members, {{.name = "mask", .from = "seg.png", .kind = FieldKind::mask},
                                        {.name = "view", .from = "seg"},
                                        {.name = "second", .from = "CLS2"},
                                        {.name = "number", .from = "txt", .kind = FieldKind::value},
                                        {.name = "caption", .from = "txt"},
                                        {.name = "score", .from = "json:score"},
                                        {.name = "age", .from = "json:age", .kind = FieldKind::label},
                                        {.name = "tags", .from = "json:tags", .kind = FieldKind::label},
                                        {.name = "boxes", .from = "json:box", .kind = FieldKind::boxes},
                                        {.name = "text", .from = "json:text"},
                                        {.name = "vec"},
                                        {.name = "raw"}});
    EXPECT_EQ(describe_fields(dataset.fields()),
              "mask mask, view image, second int64 (), number float64 (), caption uint8 (-1), score float64 (), "
              "age int64 (), tags int64 (3), boxes float32 (-1, 4), text uint8 (-1), vec float32 (3), raw uint8 (-1)");
    Sample sample;
    dataset.read(0, sample);
    EXPECT_EQ(text_of(sample), "A");
    EXPECT_EQ(sample.label, 1);
    EXPECT_TRUE(sample.fields[0].encoded && sample.fields[1].encoded);
    EXPECT_EQ(text_of(sample.fields[0]), kPng);
    EXPECT_THAT(numbers_of<std::int64_t>(sample.fields[2]), ElementsAre(42));
    EXPECT_THAT(numbers_of<double>(sample.fields[3]), ElementsAre(2.25));
    EXPECT_EQ(text_of(sample.fields[4]), "2.25");
    EXPECT_THAT(numbers_of<double>(sample.fields[5]), ElementsAre(0.5));
    EXPECT_THAT(numbers_of<std::int64_t>(sample.fields[6]), ElementsAre(7));
    EXPECT_THAT(numbers_of<std::int64_t>(sample.fields[7]), ElementsAre(1, 0, 1));
    EXPECT_THAT(numbers_of<float>(sample.fields[8]), ElementsAre(1, 2, 3, 4.5));
    EXPECT_EQ(text_of(sample.fields[9]), "two words");
    EXPECT_THAT(numbers_of<float>(sample.fields[10]), ElementsAre(1, 2, 3));
    EXPECT_EQ(text_of(sample.fields[11]), "any bytes");
}

TEST_F(TarFields, TheSizesOfArraysSayWhetherTheirLengthsDiffer) {
    const auto point = [](std::int64_t count) {
        return npy_of<float>("<f4", {count, 2}, std::vector<float>(static_cast<std::size_t>(2 * count), 1));
    };
    const auto two = [&](std::int64_t first, std::int64_t second) {
        return tar_member("a.jpg", "A") + tar_member("a.p.npy", point(first)) + tar_member("b.jpg", "B") +
               tar_member("b.p.npy", point(second));
    };
    EXPECT_EQ(open(two(3, 3), {{.name = "p"}}).fields()[0].shape, (Shape{3, 2}));
    const auto dataset = open(two(3, 0), {{.name = "p"}});
    EXPECT_EQ(dataset.fields()[0].shape, (Shape{-1, 2}));
    Sample sample;
    dataset.read(1, sample);
    EXPECT_TRUE(sample.fields[0].bytes.empty());
    // JSON: some samples are compared.
    const auto lists = open(tar_member("a.jpg", "A") + tar_member("a.json", R"({"l": [1]})") +
                                tar_member("b.jpg", "B") + tar_member("b.json", R"({"l": [1, 2]})"),
                            {{.name = "l", .from = "json:l"}});
    EXPECT_EQ(lists.fields()[0].shape, (Shape{-1}));
}

TEST_F(TarFields, PixelsAndMasksAsArrays) {
    const auto dataset =
        open(tar_member("a.jpg", "A") + tar_member("a.m.npy", npy_of<std::uint8_t>("|b1", {1, 2}, {1, 0})) +
                 tar_member("a.left.npy", npy_of<std::uint8_t>("|u1", {2, 1, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10})),
             {{.name = "m", .kind = FieldKind::mask}, {.name = "left", .kind = FieldKind::image}});
    Sample sample;
    dataset.read(0, sample);
    EXPECT_EQ(sample.fields[0].height, 1);
    EXPECT_EQ(sample.fields[0].width, 2);
    EXPECT_EQ(sample.fields[0].channels, 1);
    EXPECT_EQ(sample.fields[1].channels, 2);
    EXPECT_THAT(numbers_of<std::uint8_t>(sample.fields[1]),
                ElementsAre(1, 6, 2, 7, 3, 8, 4, 9, 5, 10));  // (C, H, W) -> (H, W, C)
}

TEST_F(TarFields, AMissingOrWrongMemberMakesABadSample) {
    const auto dataset = open(tar_member("a.jpg", "A") + tar_member("a.txt", "1") + tar_member("b.jpg", "B") +
                                  tar_member("c.jpg", "C") + tar_member("c.txt", "one"),
                              {{.name = "n", .from = "txt", .kind = FieldKind::value}});
    Sample sample;
    dataset.read(0, sample);
    EXPECT_THAT(
        [&] { dataset.read(1, sample); },
        ThrowsMessage<DataError>(AllOf(HasSubstr("b.jpg"), HasSubstr("a member txt for the field n, got none"))));
    EXPECT_THAT([&] { dataset.read(2, sample); }, ThrowsMessage<DataError>(HasSubstr("a number")));
    EXPECT_THAT([&] { open(tar_member("a.jpg", "A"), {{.name = "n"}}); },
                ThrowsMessage<DataError>(HasSubstr("samples with the field n, got none; there are jpg")));
    EXPECT_THAT(
        [&] {
            open(tar_member("a.jpg", "A") + tar_member("a.s.png", kPng), {{.name = "s", .kind = FieldKind::label}});
        },
        ThrowsMessage<Unsupported>(HasSubstr("numbers for a field that is label")));
}

TEST_F(TarFields, ShardsWithoutImages) {
    const std::string members = tar_member("a.ten", "one") + tar_member("b.ten", "two") + tar_member("b.cls", "3");
    const auto dataset = open(members, {{.name = "ten"}});
    EXPECT_FALSE(dataset.has_image());
    ASSERT_EQ(dataset.size(), 2);
    EXPECT_EQ(dataset.key(1), "b");
    Sample sample;
    dataset.read(1, sample);
    EXPECT_TRUE(sample.bytes.empty() && !sample.encoded && sample.height == 0);
    EXPECT_EQ(sample.label, 3);
    EXPECT_EQ(text_of(sample.fields[0]), "two");
    // With an image in the shard, samples without one are left out as ever.
    const auto mixed = open(members + tar_member("c.jpg", "C") + tar_member("c.ten", "three"), {{.name = "ten"}});
    ASSERT_EQ(mixed.size(), 1);
    EXPECT_TRUE(mixed.has_image());
    mixed.read(0, sample);
    EXPECT_EQ(text_of(sample.fields[0]), "three");
}

TEST_F(TarFields, TheCachedIndexIsThatOfTheSameFields) {
    std::string members;
    for (int i = 0; i < 200; ++i) {  // above the size from which indices are cached
        members += tar_member(fmt::format("{:03}.jpg", i), fmt::format("image {}", i)) +
                   tar_member(fmt::format("{:03}.txt", i), fmt::format("{}", i)) +
                   tar_member(fmt::format("{:03}.raw", i), fmt::format("raw {}", i));
    }
    Sample sample;
    for (int round = 0; round < 2; ++round) {
        const auto one = open(members, {{.name = "n", .from = "txt", .kind = FieldKind::label}});
        one.read(150, sample);
        EXPECT_THAT(numbers_of<std::int64_t>(sample.fields[0]), ElementsAre(150));
        const auto both = open(members, {{.name = "raw"}, {.name = "n", .from = "txt", .kind = FieldKind::label}});
        both.read(7, sample);
        EXPECT_EQ(text_of(sample.fields[0]), "raw 7");
        EXPECT_THAT(numbers_of<std::int64_t>(sample.fields[1]), ElementsAre(7));
        const auto plain = open(members, {});
        plain.read(199, sample);
        EXPECT_EQ(text_of(sample), "image 199");
    }
}

TEST_F(TarFields, ABadFirstMemberIsABadSampleAndNoMore) {
    const auto dataset =
        open(tar_member("a.jpg", "A") + tar_member("a.txt", "one") + tar_member("a.json", "{") +
                 tar_member("b.jpg", "B") + tar_member("b.txt", "2") + tar_member("b.json", R"({"n": [1, 2]})") +
                 tar_member("c.jpg", "C") + tar_member("c.txt", "3") + tar_member("c.json", R"({"n": "none"})"),
             {{.name = "n", .from = "txt", .kind = FieldKind::value}, {.name = "list", .from = "json:n"}});
    EXPECT_EQ(describe_fields(dataset.fields()), "n float64 (), list float64 (2)");
    Sample sample;
    EXPECT_THAT([&] { dataset.read(0, sample); }, ThrowsMessage<DataError>(HasSubstr("a number")));
    dataset.read(1, sample);
    EXPECT_THAT(numbers_of<double>(sample.fields[1]), ElementsAre(1, 2));
    EXPECT_THROW(dataset.read(2, sample), DataError);
    EXPECT_THAT(
        [&] {
            open(tar_member("a.jpg", "A") + tar_member("a.txt", "one") + tar_member("b.jpg", "B") +
                     tar_member("b.txt", "two"),
                 {{.name = "n", .from = "txt", .kind = FieldKind::value}});
        },
        ThrowsMessage<DataError>(HasSubstr("a number")));
}

TEST_F(TarFields, DeepJsonIsNotWrittenAgain) {
    const auto nested = [](std::size_t levels) {
        return R"({"k": )" + std::string(levels, '[') + std::string(levels, ']') + "}";
    };
    const auto dataset = open(tar_member("a.jpg", "A") + tar_member("a.json", nested(20)) + tar_member("b.jpg", "B") +
                                  tar_member("b.json", nested(2'000'000)),
                              {{.name = "k", .from = "json:k", .kind = FieldKind::bytes}});
    Sample sample;
    dataset.read(0, sample);
    EXPECT_EQ(text_of(sample.fields[0]), std::string(20, '[') + std::string(20, ']'));
    EXPECT_THAT([&] { dataset.read(1, sample); }, ThrowsMessage<DataError>(HasSubstr("object of at most 64 levels")));
}

// Parsed JSON takes far more memory than its text.
TEST_F(TarFields, JsonThatTakesTooMuchMemoryIsRefused) {
    const std::string spaces(4'000'000, ' ');
    const auto dataset = open(tar_member("a.jpg", "A") + tar_member("a.json", R"({"k": 1})") +
                                  tar_member("b.jpg", "B") + tar_member("b.json", R"({"k": )" + spaces + "2}"),
                              {{.name = "k", .from = "json:k"}});
    Sample sample;
    dataset.read(1, sample);
    const MemoryRoom room(100 * kMiB);
    EXPECT_THROW(dataset.read(1, sample), MemoryError);
}

// A single member such as x.2019.npy is the image of a sample without a better one, unless it is another field.
TEST_F(TarFields, AnArrayThatIsAskedForIsNotTheImage) {
    const auto of = [](std::int64_t first) { return npy_of<std::int64_t>("<i8", {2}, {first, 5}); };
    const std::string members = tar_member("a.tokens.npy", of(1)) + tar_member("b.tokens.npy", of(2));
    for (const auto kind : {std::optional<FieldKind>(), std::optional(FieldKind::tokens)}) {
        const auto dataset = open(members, {{.name = "tokens", .kind = kind}});
        EXPECT_FALSE(dataset.has_image());
        ASSERT_EQ(dataset.size(), 2);
        Sample sample;
        dataset.read(1, sample);
        EXPECT_THAT(numbers_of<std::int64_t>(sample.fields[0]), ElementsAre(2, 5));
    }
    const auto pixels = tar_member("a.left.npy", npy_of<std::uint8_t>("|u1", {1, 2}, {3, 4}));
    EXPECT_TRUE(open(pixels, {}).has_image());
    EXPECT_TRUE(open(pixels, {{.name = "left", .kind = FieldKind::image}}).has_image());
}

TEST_F(TarFields, StoredFieldsAreListed) {
    const auto dataset = open(tar_member("a.jpg", "A") + tar_member("a.cls", "1") + tar_member("a.seg.png", kPng) +
                                  tar_member("a.boxes.npy", npy_of<float>("<f4", {1, 4}, {1, 2, 3, 4})) +
                                  tar_member("a.json", R"({"score": 1, "name": "x"})"),
                              {});
    EXPECT_EQ(describe_fields(dataset.stored_fields()),
              "seg.png mask, boxes.npy float32 (1, 4), json uint8 (-1), json:score float64 ()");
    EXPECT_EQ(dataset.stored_fields()[1].kind, FieldKind::boxes);
}

}  // namespace
}  // namespace stoker

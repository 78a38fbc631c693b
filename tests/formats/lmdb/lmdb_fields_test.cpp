// Entries of pickled records as further fields: arrays, numbers, lists, encoded images, bytes; entries that differ
// between records; the description that `stoker pack` stores.
#include "stoker/formats/lmdb/lmdb_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "formats/field_value_support.h"
#include "formats/lmdb/lmdb_support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/lmdb/lmdb.h"
#include "stoker/formats/pickle/pickle_writer.h"

namespace stoker::lmdb_fields_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using namespace stoker::testing;

const std::string kPng = "\x89PNG\r\n\x1a\n and more";

std::string pickled(const std::function<void(PickleWriter&)>& write) {
    std::vector<std::byte> bytes;
    PickleWriter writer(bytes);
    write(writer);
    writer.finish();
    return std::string(as_text(bytes));
}

// A dict with an image, a label, and what `write` adds.
std::string record(const std::function<void(PickleWriter&)>& write, bool planes = false) {
    return pickled([&](PickleWriter& writer) {
        const std::vector<std::byte> pixels(3 * 5 * 6, std::byte{7});
        writer.begin_dict();
        writer.text("image");
        writer.array(DType::uint8, planes ? Shape{3, 5, 6} : Shape{5, 6, 3}, pixels);
        writer.text("label");
        writer.integer(2);
        write(writer);
        writer.end_dict();
    });
}

class LmdbFields : public ::testing::Test {
  protected:
    LmdbDataset open(const std::vector<std::string>& records, std::vector<FieldRequest> more) const {
        std::map<std::string, std::string> entries = extra_;
        for (std::size_t i = 0; i < records.size(); ++i) {
            entries[std::string(1, static_cast<char>('a' + i))] = records[i];
        }
        std::filesystem::remove_all(dir_ / "x");
        write_lmdb(dir_ / "x", entries);
        return LmdbDataset(dir_ / "x", {.image = "", .label = "", .more = std::move(more)});
    }

    TempDir dir_;
    std::map<std::string, std::string> extra_;
};

void put_all(PickleWriter& writer, std::int64_t count) {
    const std::vector<float> numbers(static_cast<std::size_t>(4 * count), 1.5F);
    writer.text("boxes");
    writer.array(DType::float32, {count, 4}, std::as_bytes(std::span(numbers)));
    writer.text("mask");
    writer.bytes(as_bytes(kPng));
    writer.text("age");
    writer.integer(-3);
    writer.text("score");
    writer.real(0.1);
    writer.text("tags");
    writer.begin_list();
    for (const std::int64_t tag : {0, 1, 1}) {
        writer.integer(tag);
    }
    writer.end_list();
    writer.text("rows");
    writer.begin_list();
    for (const double row : {0.5, 1.0}) {
        writer.begin_list();
        writer.real(row);
        writer.integer(4);
        writer.end_list();
    }
    writer.end_list();
    writer.text("caption");
    writer.text("two words");
}

TEST_F(LmdbFields, EachKindOfEntry) {
    const auto dataset =
        open({record([](auto& writer) { put_all(writer, 2); }), record([](auto& writer) { put_all(writer, 0); }, true)},
             {{.name = "boxes", .kind = FieldKind::boxes},
              {.name = "seg", .from = "mask", .kind = FieldKind::mask},
              {.name = "view", .from = "mask"},
              {.name = "age"},
              {.name = "score"},
              {.name = "tags", .kind = FieldKind::label},
              {.name = "rows"},
              {.name = "caption"}});
    EXPECT_EQ(describe_fields(dataset.fields()),
              "boxes float32 (-1, 4), seg mask, view image, age int64 (), score float64 (), tags int64 (3), "
              "rows float64 (2, 2), caption uint8 (-1)");
    Sample sample;
    dataset.read(0, sample);
    EXPECT_EQ(sample.label, 2);
    EXPECT_EQ(sample.bytes.size(), 90U);
    EXPECT_EQ(sample.fields[0].bytes.size(), 32U);
    EXPECT_TRUE(sample.fields[1].encoded);
    EXPECT_EQ(text_of(sample.fields[1]), kPng);
    EXPECT_EQ(text_of(sample.fields[2]), kPng);
    EXPECT_THAT(numbers_of<std::int64_t>(sample.fields[3]), ElementsAre(-3));
    EXPECT_THAT(numbers_of<double>(sample.fields[4]), ElementsAre(0.1));
    EXPECT_THAT(numbers_of<std::int64_t>(sample.fields[5]), ElementsAre(0, 1, 1));
    EXPECT_THAT(numbers_of<double>(sample.fields[6]), ElementsAre(0.5, 4, 1, 4));
    EXPECT_EQ(text_of(sample.fields[7]), "two words");
    dataset.read(1, sample);  // planes: the image is transposed after the fields were read
    EXPECT_TRUE(sample.fields[0].bytes.empty());
    EXPECT_EQ(text_of(sample.fields[7]), "two words");
    EXPECT_EQ(sample.channels, 3);
}

TEST_F(LmdbFields, RecordsThatDiffer) {
    const auto of = [](std::int64_t count) {
        return record([=](PickleWriter& writer) {
            const std::vector<std::int64_t> numbers(static_cast<std::size_t>(count), count);
            writer.text("n");
            writer.array(DType::int64, {count}, std::as_bytes(std::span(numbers)));
        });
    };
    EXPECT_EQ(open({of(2), of(2)}, {{.name = "n"}}).fields()[0].shape, (Shape{2}));
    EXPECT_EQ(open({of(2), of(3)}, {{.name = "n"}}).fields()[0].shape, (Shape{-1}));
    const auto dataset = open({record([](auto&) {}), of(2)}, {{.name = "n"}});
    Sample sample;
    EXPECT_THAT([&] { dataset.read(0, sample); },
                ThrowsMessage<DataError>(AllOf(HasSubstr("an entry n"), HasSubstr("dict of 2"))));
    dataset.read(1, sample);
    EXPECT_THAT(numbers_of<std::int64_t>(sample.fields[0]), ElementsAre(2, 2));
    EXPECT_THAT([&] { open({of(2), kPng}, {{.name = "none"}}); }, ThrowsMessage<DataError>(HasSubstr("an entry none")));
    EXPECT_THAT(
        [&] {
            open({of(2), kPng}, {{.name = "n"}}).read(1, sample);
        },
        ThrowsMessage<DataError>(HasSubstr("a pickled record with further fields")));
}

// Python writes 0 and 0.5 as an int and a float.
TEST_F(LmdbFields, IntegersAndFloatsTogetherAreFloats) {
    const auto of = [](double number) {
        return record([=](PickleWriter& writer) {
            writer.text("n");
            number == std::floor(number) ? writer.integer(static_cast<std::int64_t>(number)) : writer.real(number);
        });
    };
    EXPECT_EQ(open({of(1), of(2)}, {{.name = "n"}}).fields()[0].dtype, DType::int64);
    const auto dataset = open({of(1), of(0.5), of(2)}, {{.name = "n"}});
    EXPECT_EQ(dataset.fields()[0].dtype, DType::float64);
    Sample sample;
    for (const auto& [index, number] : {std::pair{0, 1.0}, {1, 0.5}, {2, 2.0}}) {
        dataset.read(index, sample);
        EXPECT_THAT(numbers_of<double>(sample.fields[0]), ElementsAre(number));
    }
}

TEST_F(LmdbFields, EntriesOfATuple) {
    const std::string tuple = pickled([](PickleWriter& writer) {
        writer.begin_list();
        writer.bytes(as_bytes(kPng));
        writer.integer(4);
        writer.real(0.5);
        writer.end_list();
    });
    const auto dataset = open({tuple}, {{.name = "third", .from = "2"}});
    Sample sample;
    dataset.read(0, sample);
    EXPECT_EQ(sample.label, 4);
    EXPECT_THAT(numbers_of<double>(sample.fields[0]), ElementsAre(0.5));
}

TEST_F(LmdbFields, TheWritersDescriptionCounts) {
    extra_["__fields__"] = pickled([](PickleWriter& writer) {
        writer.begin_dict();
        writer.text("n");
        writer.begin_list();
        writer.text("tokens");
        writer.text("int64");
        writer.integer(-1);
        writer.end_list();
        writer.end_dict();
    });
    const std::string one = record([](PickleWriter& writer) {
        const std::vector<std::int64_t> numbers = {5, 6};
        writer.text("n");
        writer.array(DType::int64, {2}, std::as_bytes(std::span(numbers)));
    });
    const auto dataset = open({one}, {{.name = "n"}});
    EXPECT_EQ(dataset.fields()[0],
              (Field{.name = "n", .kind = FieldKind::tokens, .dtype = DType::int64, .shape = {-1}}));
    extra_["__fields__"] = "other programs store other things.";
    EXPECT_EQ(open({one}, {{.name = "n"}}).fields()[0].shape, (Shape{2}));
}

TEST_F(LmdbFields, StoredFieldsAreListed) {
    const auto dataset = open({record([](auto& writer) { put_all(writer, 2); })}, {});
    EXPECT_EQ(describe_fields(dataset.stored_fields()),
              "boxes float32 (2, 4), mask mask, age int64 (), score float64 (), tags float64 (3), rows float64 (2, 2), "
              "caption uint8 (-1)");
}

// A list of lists that are all the same one.
TEST(LmdbRepeatedValues, OneListManyTimesIsNotRead) {
    std::string inner;
    std::string outer;
    for (int i = 0; i < 3000; ++i) {
        inner += "K\1";
        outer += std::string("h\0", 2);
    }
    const std::string value = "](" + inner + "e" + std::string("q\0", 2) + "0](" + outer + "e.";
    Pickle pickle;
    const PickleValue list = pickle.read(as_bytes(value));
    EXPECT_THAT([&] { describe_entry({.name = "n"}, list, "here"); },
                ThrowsMessage<DataError>(HasSubstr("one list or one text many times")));
}

// Samples that were looked at have two numbers; the caller knows that others have more.
TEST_F(LmdbFields, AnyLengthThatIsAskedFor) {
    const std::string two = record([](PickleWriter& writer) {
        const std::vector<std::int64_t> numbers = {1, 2};
        writer.text("n");
        writer.array(DType::int64, {2}, std::as_bytes(std::span(numbers)));
    });
    EXPECT_EQ(open({two, two}, {{.name = "n", .any_length = true}}).fields()[0].shape, (Shape{-1}));
}

}  // namespace
}  // namespace stoker::lmdb_fields_test

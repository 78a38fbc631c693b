// LitData's chunks: names of leaves, the three layouts of a chunk, each serializer, streams of tokens, damage.
// tests/python/test_format_shards.py compares with the library.
#include "stoker/formats/litdata/litdata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "formats/field_value_support.h"
#include "formats/shard_support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/litdata/litdata_encoding.h"
#include "stoker/formats/litdata/litdata_index.h"
#include "stoker/formats/open.h"
#include "support/temp_dir.h"

namespace stoker::litdata_test {
namespace {

using ::testing::ElementsAre;
using namespace stoker::testing;

const std::string kPng = "\x89PNG\r\n\x1a\n and more";
const std::string kLevel = R"(,"compression":"zstd","compression_level":)";

std::string big_endian(std::uint64_t value) {
    const std::string little = little_endian(value, 4);
    return {little.rbegin(), little.rend()};
}

class Litdata : public ::testing::Test {
  protected:
    void write(const std::string& index, const std::string& chunk) {
        write_file(dir_ / "x.bin", chunk);
        write_file(dir_ / "index.json", index);
    }
    std::unique_ptr<Dataset> open(FieldNames fields = {}, std::int64_t context = 0) const {
        return open_dataset(dir_.path().string(), Split::train, {.fields = std::move(fields), .context = context});
    }
    FieldValue& value(const std::string& serializer, const std::string& bytes, std::optional<FieldKind> kind = {}) {
        write(lit_index("\"jpeg\",\"" + serializer + '"', lit_dict({"image", "v"}), {{.samples = 1}}),
              shard_of({columns_of({kPng, bytes})}));
        dataset_ = open({.image = {}, .label = {}, .more = {{.name = "v", .kind = kind}}});
        dataset_->read(0, sample_);
        return sample_.field(0);
    }
    void expect_images(const std::vector<std::string>& images) {
        ASSERT_EQ(dataset_->size(), std::ssize(images));
        for (std::size_t i = 0; i < images.size(); ++i) {
            dataset_->read(static_cast<std::int64_t>(i), sample_);
            EXPECT_EQ(as_text(sample_.bytes), images[i]);
            EXPECT_EQ(sample_.label, static_cast<std::int64_t>(i));
        }
    }

    TempDir dir_;
    std::unique_ptr<Dataset> dataset_;
    Sample sample_;
};

TEST(LitdataLeaves, HaveTheKeysOrPositions) {
    const std::string leaf = R"({"type": null, "context": null, "children_spec": []})";
    EXPECT_THAT(litdata_leaf_names("[1, " + leaf + "]"), ElementsAre("0"));
    const auto node = [&](const std::string& type, const std::string& context, const std::string& children) {
        return R"({"type": ")" + type + R"(", "context": )" + context + R"(, "children_spec": [)" + children + "]}";
    };
    const std::string pair = node("builtins.tuple", R"("null")", leaf + ", " + leaf);
    EXPECT_THAT(litdata_leaf_names("[1, " + pair + "]"), ElementsAre("0", "1"));
    const std::string dict = node("builtins.dict", R"("[\"a\", 7]")", leaf + ", " + pair);
    EXPECT_THAT(litdata_leaf_names("[1, " + dict + "]"), ElementsAre("a", "7.0", "7.1"));
    EXPECT_THROW(litdata_leaf_names("[2, " + leaf + "]"), DataError);
    EXPECT_THROW(litdata_leaf_names("{"), DataError);
    std::string deep = leaf;
    for (int i = 0; i < 100; ++i) {
        deep = node("builtins.list", R"("null")", deep);
    }
    EXPECT_THROW(litdata_leaf_names("[1, " + deep + "]"), DataError);
}

TEST_F(Litdata, TheLayoutsOfAChunk) {
    const std::vector<std::string> images = {kPng, kPng + "1", kPng + "2"};
    std::vector<std::string> samples;
    std::vector<std::string> packed;
    for (std::size_t i = 0; i < images.size(); ++i) {
        samples.push_back(columns_of({images[i], little_endian(i, 8)}));
        packed.push_back(zstd_stored(samples.back()));
    }
    const auto index = [&](const std::string& config) {
        return lit_index(R"("bytes","int")", lit_dict({"image", "label"}), {{.samples = 3}}, config);
    };
    write(index(R"(,"compression":null)"), shard_of(samples));
    dataset_ = open();
    expect_images(images);
    EXPECT_TRUE(dataset_->shard_sizes().empty());

    write(index(kLevel + "\"batch\""), lit_framed(samples, 2));
    dataset_ = open();
    EXPECT_THAT(dataset_->shard_sizes(), ElementsAre(2, 1));
    expect_images(images);

    write(index(kLevel + "\"sample\""), shard_of(packed));
    dataset_ = open();
    EXPECT_TRUE(dataset_->shard_sizes().empty());
    expect_images(images);

    write(index(kLevel + "null"), zstd_stored(shard_of(samples)));
    dataset_ = open();
    EXPECT_THAT(dataset_->shard_sizes(), ElementsAre(3));
    expect_images(images);
}

TEST_F(Litdata, PlainChunksAmongCompressedOnes) {
    const auto sample = [](const std::string& image, std::uint64_t label) {
        return columns_of({image, little_endian(label, 8)});
    };
    write_file(dir_ / "a.zstd.bin", zstd_stored(shard_of({sample(kPng, 0), sample(kPng + "1", 1)})));
    write(lit_index(R"("bytes","int")", lit_dict({"image", "label"}),
                    {{.file = "a.zstd.bin", .samples = 2}, {.file = "x.bin", .samples = 1}}, kLevel + "\"chunk\""),
          shard_of({sample(kPng + "2", 2)}));
    dataset_ = open();
    EXPECT_THAT(dataset_->shard_sizes(), ElementsAre(2, 1));
    expect_images({kPng, kPng + "1", kPng + "2"});
}

TEST_F(Litdata, ArraysOfBothLibraries) {
    const std::string two = little_endian(1, 2) + little_endian(0xFFFE, 2);
    EXPECT_THAT(
        numbers_of<std::int16_t>(value("numpy", little_endian(1, 4) + little_endian(1, 4) + little_endian(2, 4) + two)),
        ElementsAre(1, -2));
    EXPECT_THAT(numbers_of<std::int16_t>(
                    value("tensor", little_endian(13, 4) + little_endian(1, 4) + little_endian(2, 4) + two)),
                ElementsAre(1, -2));
    EXPECT_THAT(numbers_of<std::int16_t>(value("tensor", big_endian(13) + big_endian(1) + big_endian(2) + two)),
                ElementsAre(1, -2));
    EXPECT_THAT(numbers_of<std::int16_t>(value("no_header_tensor:13", two)), ElementsAre(1, -2));
    EXPECT_THAT(numbers_of<std::uint16_t>(value("no_header_numpy:5", two)), ElementsAre(1, 0xFFFE));
    EXPECT_THROW(value("numpy", little_endian(11, 4) + little_endian(0, 4)), DataError);  // complex
    EXPECT_THROW(value("tensor", big_endian(13) + big_endian(1) + big_endian(3) + two), DataError);
    EXPECT_THROW(value("no_header_tensor:99", two), Unsupported);
    EXPECT_THROW(value("pickle", two), Unsupported);
}

TEST_F(Litdata, ScalarsAndText) {
    EXPECT_THAT(numbers_of<std::uint8_t>(value("bool", "\1")), ElementsAre(1));
    EXPECT_THAT(numbers_of<std::int64_t>(value("int", little_endian(5, 8))), ElementsAre(5));
    EXPECT_EQ(text_of(value("str", "words")), "words");
    EXPECT_TRUE(value("image:png", kPng).encoded);
    EXPECT_THROW(value("int", "12"), DataError);
}

TEST(LitdataNumbers, InBothForms) {
    const auto numbers = [](const std::string& text) { return litdata_numbers(as_bytes(text)); };
    EXPECT_THAT(numbers("[1, 2.5]").reals, ElementsAre(1, 2.5));
    EXPECT_THAT(numbers("\2" + little_endian(2, 4) + little_endian(7, 8) + little_endian(8, 8)).integers,
                ElementsAre(7, 8));
    EXPECT_THAT(numbers(std::string(1, '\0') + little_endian(3, 4) + "[4]").integers, ElementsAre(4));
    EXPECT_EQ(numbers("\1" + little_endian(0, 4)).shape, Shape{0});
    EXPECT_THAT(numbers("\n\1").integers, ElementsAre(1));
    EXPECT_THROW(numbers("\2" + little_endian(1U << 31, 4)), DataError);
    EXPECT_THROW(numbers("\5" + little_endian(0, 4)), DataError);  // a dict
    EXPECT_THROW(numbers(""), DataError);
}

TEST_F(Litdata, AStreamOfTokens) {
    std::string first;
    for (unsigned token = 0; token < 7; ++token) {
        first += little_endian(token, 2);
    }
    write(
        lit_index(R"("no_header_numpy:5")", kLitLeaf, {{.samples = 2, .dim = "7"}}, R"(,"item_loader":"TokensLoader")"),
        shard_of({first.substr(0, 6), first.substr(6)}));
    const auto dataset = open({}, 2);
    ASSERT_EQ(dataset->size(), 2);
    dataset->read(1, sample_);
    EXPECT_THAT(numbers_of<std::int64_t>(sample_.field(0)), ElementsAre(3, 4, 5));
    EXPECT_THROW(open({}, 0), InvalidArgument);
    EXPECT_THROW(open({}, 7), DataError);  // no whole block
}

TEST_F(Litdata, ChunksOfTokensThatTheIndexDoesNotDescribe) {
    const auto opened = [&](const std::string& chunk) {
        write(lit_index(R"("no_header_numpy:5")", kLitLeaf, {{.samples = 1, .dim = "4"}},
                        R"(,"item_loader":"TokensLoader")"),
              chunk);
        return open({}, 1);
    };
    const std::string tokens(64, '\1');
    EXPECT_EQ(opened(shard_of({tokens}))->size(), 2);
    EXPECT_THROW(opened(shard_of({tokens, tokens})), DataError);  // another count
    EXPECT_THROW(opened(lit_framed({tokens}, 1)), Unsupported);
    EXPECT_THROW(opened(zstd_stored(shard_of({tokens}))), Unsupported);
}

TEST_F(Litdata, DamagedFrames) {
    const std::string index = lit_index(R"("jpeg")", kLitLeaf, {{.samples = 2}}, kLevel + "\"batch\"");
    const std::string good = lit_framed({columns_of({kPng}), columns_of({kPng})}, 1);
    for (const std::size_t at : {8, 12, 20, 36, 40, 44, 52}) {  // version, samples, frames, first, samples, place, size
        std::string bad = good;
        bad[at] = '\x7f';
        bad[at + 1] = '\x7f';
        write(index, bad);
        EXPECT_THROW(open(), DataError) << at;
    }
    std::string bad = good;
    bad[24 + 12 + 48 + 20] ^= 1;  // in the first frame: a bad sample
    bad[24 + 12 + 48] ^= 1;
    write(index, bad);
    const auto dataset = open();
    EXPECT_THROW(dataset->read(0, sample_), DataError);
    EXPECT_NO_THROW(dataset->read(1, sample_));
}

TEST_F(Litdata, CountsThatAPackedChunkCannotHave) {
    const std::string index = lit_index(R"("bytes")", lit_dict({"image"}), {{.samples = 4294967295}}, kLevel + "null");
    write(index, zstd_stored(shard_of({columns_of({kPng})})));
    EXPECT_THROW(open(), DataError);
    write(index, "\x28\xb5\x2f\xfd");  // states no size
    EXPECT_THROW(open(), DataError);
}

TEST_F(Litdata, ADamagedHeadMakesBadSamples) {
    const std::string packed = zstd_stored(shard_of({columns_of({kPng})}));
    write_file(dir_ / "a.zstd.bin", "\x29" + packed.substr(1));
    write(lit_index(R"("bytes")", lit_dict({"image"}),
                    {{.file = "a.zstd.bin", .samples = 1}, {.file = "x.bin", .samples = 1}}, kLevel + "null"),
          packed);
    dataset_ = open();
    EXPECT_THROW(dataset_->read(0, sample_), DataError);
    EXPECT_NO_THROW(dataset_->read(1, sample_));
}

// A remote file whose cache has a damaged byte.
class DamagedCache final : public ByteFile {
  public:
    DamagedCache(std::string bytes, std::size_t damaged) : bytes_(std::move(bytes)), damaged_(damaged) {}

    std::uint64_t size() const override { return bytes_.size(); }
    void read(std::uint64_t offset, std::span<std::byte> out) const override {
        read_anew(offset, out);
        if (offset <= damaged_ && damaged_ < offset + out.size()) {
            out[damaged_ - offset] ^= std::byte{1};
        }
    }
    void read_anew(std::uint64_t offset, std::span<std::byte> out) const override {
        std::ranges::copy(as_bytes(bytes_).subspan(offset, out.size()), out.data());
    }
    const std::string& name() const override { return name_; }
    std::string stamp() const override { return "1"; }
    bool remote() const override { return true; }

  private:
    std::string bytes_;
    std::size_t damaged_;
    std::string name_ = "https://host/x.bin";
};

TEST_F(Litdata, DamagedRemoteFramesAreFetchedAgain) {
    const std::string sample = columns_of({kPng});
    const std::string frames = lit_framed({sample, sample}, 1);
    const std::string chunk = zstd_stored(shard_of({sample, sample}));
    const std::string samples = shard_of({zstd_stored(sample), zstd_stored(sample)});
    for (const auto& [level, bytes, damaged] :
         {std::tuple("\"batch\"", frames, frames.size() - sample.size() - 1), std::tuple("null", chunk, std::size_t{9}),
          std::tuple("\"sample\"", samples, samples.size() - sample.size() - 1)}) {
        const auto index =
            nlohmann::json::parse(lit_index(R"("bytes")", lit_dict({"image"}), {{.samples = 2}}, kLevel + level));
        const auto file = [&](const std::string&) { return std::make_unique<DamagedCache>(bytes, damaged); };
        dataset_ = open_litdata("https://host/index.json", index, {}, file, 0);
        for (const int at : {0, 1}) {
            dataset_->read(at, sample_);
            EXPECT_EQ(as_text(sample_.bytes), kPng) << level;
        }
    }
}

TEST_F(Litdata, ADamagedTableOfRows) {
    write(lit_index(R"("bytes")", lit_dict({"image"}), {{.samples = 2}}),
          shard_of({"", ""}) + "a table" + little_endian(7, 4) + std::string("LDARW01\0", 8));
    EXPECT_THROW(open(), DataError);
}

}  // namespace
}  // namespace stoker::litdata_test

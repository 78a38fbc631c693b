// Token streams and COCO's boxes: packed and unpacked, they are read back equal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "formats/field_value_support.h"
#include "pack/support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/open.h"
#include "stoker/pack/pack.h"
#include "stoker/pack/unpack.h"
#include "stoker/pack/unpack_fields.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using namespace stoker::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::int64_t kContext = 6;

FieldNames asking_for(std::vector<FieldRequest> more) {
    return {.image = {}, .label = {}, .more = std::move(more)};
}

const FieldNames kTokens = asking_for({{.name = "tokens", .kind = FieldKind::tokens}});

std::string stream(std::int64_t count, std::uint32_t step) {
    std::string bytes;
    for (std::uint32_t i = 0; i < count; ++i) {
        const auto token = static_cast<std::uint16_t>(i * step);
        bytes.append(reinterpret_cast<const char*>(&token), sizeof token);
    }
    return bytes;
}

std::vector<std::vector<std::int64_t>> windows_of(const Dataset& dataset) {
    std::vector<std::vector<std::int64_t>> windows;
    Sample sample;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        dataset.read(i, sample);
        EXPECT_TRUE(sample.bytes.empty());
        windows.push_back(numbers_of<std::int64_t>(sample.fields.at(0)));
    }
    return windows;
}

TEST(PackTokens, ComeBackFromEachTargetThatNeedsNoImage) {
    const TempDir dir;
    write_file(dir / "x.bin", stream(100, 600));
    const auto source = open_dataset((dir / "x.bin").string(), Split::train, {.context = kContext});
    for (const char* target : {"x.stk", "x.tar", "y-{000000..}.tar"}) {
        const PackResult result = pack(*source, dir / target, {.shard_size = 4'000, .workers = 2});
        EXPECT_EQ(result.samples, 16) << target;
        EXPECT_EQ(result.codecs, (std::map<std::string, std::int64_t>{{"none", 16}}));
        const auto packed = open_dataset(result.path, Split::train, {.fields = kTokens});
        EXPECT_FALSE(packed->has_image());
        EXPECT_EQ(packed->fields()[0], source->fields()[0]);
        EXPECT_EQ(packed->key(3), source->key(3));
        EXPECT_EQ(windows_of(*packed), windows_of(*source)) << target;
        EXPECT_TRUE(pack(*source, dir / target, {.shard_size = 4'000}).nothing_to_do);
        const std::vector<std::int64_t> all = {0, 5, 15};
        packed->prefetch(all);
        fs::create_directories(dir / "out" / target);
        unpack(*packed, dir / "out" / target, {.workers = 2});
        EXPECT_EQ(read_text(dir / "out" / target / "tokens.bin"), stream(97, 600)) << target;  // the whole windows
    }
    const auto other = open_dataset((dir / "x.bin").string(), Split::train, {.context = kContext + 1});
    EXPECT_THAT([&] { pack(*other, dir / "x.stk", {.shard_size = 4'000}); },
                ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("--context 6"), HasSubstr("--context 7"))));
    for (const TranscodeOptions& recode : {TranscodeOptions{.codec = PackCodec::raw},
                                           TranscodeOptions{.resize_shorter = 64}, TranscodeOptions{.quality = 90}}) {
        EXPECT_THAT([&] { pack(*source, dir / "recoded.stk", {.transcode = recode}); },
                    ThrowsMessage<InvalidArgument>(HasSubstr("a data set with images, for --codec")));
    }
    for (const char* target : {"x.lmdb", "x.h5", "x.npz"}) {
        EXPECT_THAT([&] { pack(*source, dir / target, {}); },
                    ThrowsMessage<InvalidArgument>(HasSubstr("x.stk and x.tar hold samples without images")));
    }
}

// Samples without images: fields of `fields`, filled by `read`.
class Imageless : public Dataset {
  public:
    explicit Imageless(std::vector<Field> fields) : fields_(std::move(fields)) {}
    std::int64_t size() const override { return 2; }
    bool has_image() const override { return false; }
    std::span<const Field> fields() const override { return fields_; }
    void read(std::int64_t i, Sample& sample) const override {
        sample.field(0).copy_elements(std::array<std::int64_t, 2>{first[static_cast<std::size_t>(i)], 70'000});
    }
    std::array<std::int64_t, 2> first = {1, 70'000};

  private:
    std::vector<Field> fields_;
};

TEST(UnpackTokens, LargeTokensAndSamplesThatAreNoStream) {
    const TempDir dir;
    Imageless dataset({{.name = "t", .kind = FieldKind::tokens, .dtype = DType::int64, .shape = {2}}});
    unpack(dataset, dir.path(), {});
    const auto back = open_dataset((dir / "tokens.u32.bin").string(), Split::train, {.context = 1});
    EXPECT_EQ(windows_of(*back), (std::vector<std::vector<std::int64_t>>{{1, 70'000}, {70'000, 70'000}}));
    dataset.first = {1, 2};
    EXPECT_THAT([&] { unpack(dataset, dir.path(), {}); },
                ThrowsMessage<DataError>(HasSubstr("the last token of the sample before, 70000, as the first, got 2")));
    dataset.first = {-1, 70'000};
    EXPECT_THAT([&] { unpack(dataset, dir.path(), {}); }, ThrowsMessage<DataError>(HasSubstr("got -1")));
    const Imageless other({{.name = "t", .dtype = DType::int64, .shape = {2}}});
    EXPECT_THAT([&] { unpack(other, dir.path(), {}); },
                ThrowsMessage<InvalidArgument>(HasSubstr("images, or one field of tokens of one length")));
}

TEST(UnpackTokens, AChangedBitOfAShardIsFound) {
    const TempDir dir;
    write_file(dir / "x.bin", stream(100, 600));
    const auto source = open_dataset((dir / "x.bin").string(), Split::train, {.context = kContext});
    pack(*source, dir / "x.stk", {});
    const fs::path shard = dir / "x.stk/shard-000000.stk";
    std::string bytes = read_text(shard);
    const std::int64_t token = 2 * 600;  // in the middle of the first window
    const std::string stored(reinterpret_cast<const char*>(&token), sizeof token);
    const std::size_t at = bytes.find(stored);
    ASSERT_NE(at, std::string::npos);
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    write_file(shard, bytes);
    const auto packed = open_dataset((dir / "x.stk").string(), Split::train, {.fields = kTokens});
    fs::create_directories(dir / "out");
    EXPECT_THAT([&] { unpack(*packed, dir / "out", {}); },
                ThrowsMessage<DataError>(AllOf(HasSubstr("shard-000000.stk"), HasSubstr(packed->key(0)))));
}

TEST(UnpackFields, NumbersThatATableWouldNotGiveBackAreRefused) {
    const auto cell = [](DType dtype, auto number) {
        FieldValue value;
        value.copy_elements(std::array{number});
        return UnpackFields::cells({.name = "score", .kind = FieldKind::value, .dtype = dtype}, value).at(0);
    };
    constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
    EXPECT_EQ(cell(DType::float32, -0.25F), "-0.25");
    EXPECT_EQ(cell(DType::float64, 1e38), "1e+38");
    EXPECT_EQ(cell(DType::int64, kLeast + 1), std::to_string(kLeast + 1));
    const auto refused = ThrowsMessage<DataError>(HasSubstr("[score] expected numbers that a table can have"));
    EXPECT_THAT([&] { cell(DType::float32, NAN); }, refused);
    EXPECT_THAT([&] { cell(DType::float32, -INFINITY); }, refused);
    EXPECT_THAT([&] { cell(DType::float64, 1e39); }, refused);
    EXPECT_THAT([&] { cell(DType::int64, kLeast); }, refused);
}

constexpr const char* kAnnotations = R"({"images": [{"id": 7, "file_name": "b.png"}, {"id": 3, "file_name": "a/a.png"},
    {"id": 9, "file_name": "none.png"}],
  "annotations": [{"id": 1, "image_id": 7, "category_id": 18, "bbox": [0.1, 0.7, 33.3, 1e-3], "iscrowd": 1},
                  {"id": 2, "image_id": 3, "category_id": 5, "bbox": [10, 20, 30.5, 40]},
                  {"id": 3, "image_id": 7, "category_id": 5, "bbox": [1.5, 0.333, 0, 1e4]}],
  "categories": [{"id": 18, "name": "dog"}, {"id": 5, "name": "a \"bee\""}, {"id": 20, "name": "zebra"}]})";

TEST(UnpackCoco, BoxesComeBack) {
    const TempDir dir;
    fs::create_directories(dir / "data/images/a");
    fs::create_directories(dir / "data/annotations");
    for (const char* name : {"b.png", "a/a.png", "none.png"}) {
        put(dir / "data/images" / name, encode_png(gradient(9, 7, 3, 1).view()));
    }
    write_file(dir / "data/annotations/instances_x.json", std::string_view(kAnnotations));
    const OpenOptions options{.fields = asking_for({{.name = "boxes"}, {.name = "labels"}, {.name = "iscrowd"}})};
    const auto source = open_dataset((dir / "data").string(), Split::train, options);
    pack(*source, dir / "x.stk", {.fields = options.fields});
    FieldNames kinds = options.fields;
    kinds.more[0].kind = FieldKind::boxes;
    kinds.more[1].kind = FieldKind::label;
    const auto packed = open_dataset((dir / "x.stk").string(), Split::train, {.fields = kinds});
    for (const Dataset* dataset : {source.get(), packed.get()}) {
        const fs::path out = dir / std::string(dataset->format());
        fs::create_directories(out);
        EXPECT_EQ(unpack(*dataset, out, {.workers = 2}).original, 3);
        const auto back = open_dataset(out.string(), Split::train, options);
        ASSERT_EQ(back->size(), 3);
        EXPECT_THAT(back->classes(), ::testing::ElementsAreArray(source->classes()));
        Sample one;
        Sample other;
        for (std::int64_t i = 0; i < 3; ++i) {
            EXPECT_EQ(back->key(i), source->key(i));
            source->read(i, one);
            back->read(i, other);
            EXPECT_TRUE(std::ranges::equal(one.bytes, other.bytes));
            for (std::size_t at = 0; at < 3; ++at) {
                EXPECT_TRUE(std::ranges::equal(one.fields[at].bytes, other.fields[at].bytes)) << i << " " << at;
            }
        }
    }
}

}  // namespace
}  // namespace stoker

// Further fields survive each target: kinds, types, shapes and bytes come back as the source gave them, also after a
// stopped packing; fields that a format cannot hold are refused in one line before any work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "pack/support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/open.h"
#include "stoker/formats/stk/stk.h"
#include "stoker/pack/pack.h"
#include "stoker/pack/unpack.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using namespace stoker::testing;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Stopped {};

constexpr std::int64_t kCount = 40;

// Pixels of one size with fields of each kind, of one shape or (`ragged`) of any length.
class Fielded final : public Dataset {
  public:
    explicit Fielded(bool ragged) : ragged_(ragged) {
        fields_ = {{.name = "mask", .kind = FieldKind::mask, .dtype = DType::uint8},
                   {.name = "second", .kind = FieldKind::image, .dtype = DType::uint8},
                   {.name = "score", .kind = FieldKind::value, .dtype = DType::float64},
                   {.name = "many", .kind = FieldKind::label, .dtype = DType::int64, .shape = {5}},
                   {.name = "age", .kind = FieldKind::value, .dtype = DType::int64},
                   {.name = "point", .kind = FieldKind::value, .dtype = DType::float32, .shape = {2, 3}},
                   {.name = "small", .kind = FieldKind::value, .dtype = DType::int32}};
        if (ragged) {
            fields_.push_back({.name = "boxes", .kind = FieldKind::boxes, .dtype = DType::float32, .shape = {-1, 4}});
            fields_.push_back({.name = "words", .kind = FieldKind::tokens, .dtype = DType::int64, .shape = {-1}});
            fields_.push_back({.name = "caption", .kind = FieldKind::bytes, .dtype = DType::uint8, .shape = {-1}});
        }
    }

    std::int64_t size() const override { return kCount; }
    std::span<const Field> fields() const override { return fields_; }
    std::string_view format() const override { return "fielded"; }

    void read(std::int64_t i, Sample& sample) const override {
        const auto seed = static_cast<int>(i);
        put_pixels(gradient(12, 9, 3, seed), sample);
        sample.label = i % 3;
        put_pixels(gradient(12, 9, 1, seed + 1), sample.field(0));
        if (ragged_) {  // encoded, of several sizes
            const std::vector<std::byte> png = encode_png(gradient(5 + seed, 7, 3, seed).view());
            sample.field(1).copy_elements(png);
            sample.field(1).set_encoded_image(sample.field(1).storage.bytes());
        } else {
            put_pixels(gradient(6, 4, 3, seed + 2), sample.field(1));
        }
        sample.field(2).copy_elements(std::array{static_cast<double>(i) / 7});
        sample.field(3).copy_elements(std::array<std::int64_t, 5>{i, 0, 1, -1, i * i});
        sample.field(4).copy_elements(std::array<std::int64_t, 1>{i - 20});
        sample.field(5).copy_elements(std::array<float, 6>{0.5F, static_cast<float>(i), 0, -1, 1e30F, 3});
        sample.field(6).copy_elements(std::array<std::int32_t, 1>{-seed});
        if (ragged_) {
            std::vector<float> boxes(static_cast<std::size_t>(4 * (i % 3)), static_cast<float>(i));
            sample.field(7).copy_elements(boxes);
            sample.field(8).copy_elements(std::vector<std::int64_t>(static_cast<std::size_t>(i % 5), i));
            sample.field(9).copy_elements("caption " + std::string(static_cast<std::size_t>(i % 4), 'x'));
        }
    }

  private:
    static void put_pixels(const Image& image, FieldValue& value) {
        const ConstImageView view = image.view();
        value.storage.resize(view.row_bytes() * static_cast<std::size_t>(view.height));
        for (int y = 0; y < view.height; ++y) {
            std::copy_n(reinterpret_cast<const std::byte*>(view.row(y)), view.row_bytes(),
                        value.storage.data() + static_cast<std::size_t>(y) * view.row_bytes());
        }
        value.set_raw(value.storage.bytes(), view.height, view.width, view.channels);
    }

    bool ragged_;
    std::vector<Field> fields_;
};

FieldNames asking_for(const Dataset& dataset) {
    FieldNames names;
    for (const Field& field : dataset.fields()) {
        names.more.push_back({.name = field.name, .kind = field.kind});
    }
    return names;
}

// Key, label, and of the image and each field: height, width, channels, bytes.
using Value = std::tuple<bool, int, int, int, std::string>;

std::vector<std::tuple<std::string, std::int64_t, std::vector<Value>>> all_fields(const Dataset& dataset) {
    std::vector<std::tuple<std::string, std::int64_t, std::vector<Value>>> all;
    const auto value_of = [](const FieldValue& value) {
        return Value{value.encoded, value.height, value.width, value.channels,
                     std::string(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size())};
    };
    Sample sample;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        sample.label = -1;
        dataset.read(i, sample);
        std::vector<Value> values = {value_of(sample)};
        for (std::size_t at = 0; at < dataset.fields().size(); ++at) {
            values.push_back(value_of(sample.fields[at]));
        }
        all.emplace_back(dataset.key(i), sample.label, std::move(values));
    }
    return all;
}

struct Case {
    const char* target;
    bool ragged;
};

void PrintTo(const Case& tested, std::ostream* out) {
    *out << tested.target << (tested.ragged ? " of any length" : " of one shape");
}

class PackFields : public ::testing::TestWithParam<Case> {
  protected:
    fs::path target(const std::string& folder = "out") const {
        fs::create_directories(dir_ / folder);
        return dir_ / folder / GetParam().target;
    }

    TempDir dir_;
    Fielded dataset_{GetParam().ragged};
    PackOptions options_{.shard_size = 6'000, .workers = 2};
};

TEST_P(PackFields, AllComeBack) {
    const PackResult result = pack(dataset_, target(), options_);
    EXPECT_EQ(result.fields.size(), dataset_.fields().size());
    const auto packed = open_dataset(result.path, Split::train, {.fields = asking_for(dataset_)});
    ASSERT_EQ(packed->fields().size(), dataset_.fields().size());
    for (std::size_t i = 0; i < dataset_.fields().size(); ++i) {
        EXPECT_EQ(packed->fields()[i], dataset_.fields()[i]) << dataset_.fields()[i].name;
    }
    EXPECT_TRUE(all_fields(*packed) == all_fields(dataset_));
    const auto plain = open_dataset(result.path, Split::train);
    EXPECT_EQ(plain->stored_fields().size(), dataset_.fields().size());
    EXPECT_TRUE(plain->fields().empty());
}

// The names that fields had in the source do not count where the data have them under their own.
TEST_P(PackFields, TheRecipeOfTheSourceReadsThem) {
    FieldNames names = asking_for(dataset_);
    for (FieldRequest& request : names.more) {
        request.from = has_pixels(request.kind.value()) ? "seg.png" : "json:" + request.name;
    }
    const PackResult result = pack(dataset_, target(), options_);
    const auto packed = open_dataset(result.path, Split::train, {.fields = names});
    EXPECT_TRUE(all_fields(*packed) == all_fields(dataset_));
    names.more = {{.name = "absent", .from = "missing"}};
    EXPECT_THAT([&] { open_dataset(result.path, Split::train, {.fields = names}); },
                ThrowsMessage<DataError>(HasSubstr("missing")));
    names.more = {{.name = "small", .from = "age"}};  // the source counts where it is present
    Sample sample;
    open_dataset(result.path, Split::train, {.fields = names})->read(3, sample);
    EXPECT_EQ(sample.fields[0].bytes.size(), sizeof(std::int64_t));
}

TEST_P(PackFields, AStoppedPackingIsResumed) {
    PackOptions stopping = options_;
    stopping.progress = [](const PackProgress& at) {
        if (std::string_view(at.phase) == "pack" && at.done >= 30) {
            throw Stopped{};
        }
    };
    EXPECT_THROW(pack(dataset_, target(), stopping), Stopped);
    const PackResult result = pack(dataset_, target(), options_);
    EXPECT_GT(result.resumed_samples, 0);
    EXPECT_TRUE(all_fields(*open_dataset(result.path, Split::train, {.fields = asking_for(dataset_)})) ==
                all_fields(dataset_));
}

TEST_P(PackFields, TheResultKeepsItsFields) {
    const PackResult result = pack(dataset_, target(), options_);
    EXPECT_TRUE(pack(dataset_, target(), options_).nothing_to_do);
    FieldNames names;
    names.more = {{.name = "score"}};
    // The same source with other fields is packed into another target.
    const auto one = open_dataset(result.path, Split::train, {.fields = names});
    PackOptions options = options_;
    options.fields = names;
    const fs::path other = dir_ / "other.stk";
    pack(*one, other, options);
    options.fields.more = {{.name = "points", .from = "score"}};
    const auto renamed = open_dataset(result.path, Split::train, {.fields = options.fields});
    EXPECT_THAT([&] { pack(*renamed, other, options); },
                ThrowsMessage<InvalidArgument>(HasSubstr("--field score:value, as the data set was packed with, got "
                                                         "--field points=score:value")));
}

INSTANTIATE_TEST_SUITE_P(Targets, PackFields,
                         ::testing::Values(Case{"x.stk", false}, Case{"x.tar", false}, Case{"x-{000000..}.tar", false},
                                           Case{"x.lmdb", false}, Case{"x.h5", false}, Case{"x.npz", false},
                                           Case{"x.stk", true}, Case{"x.tar", true}, Case{"x-{000000..}.tar", true},
                                           Case{"x.lmdb", true}));

TEST(PackFieldsRefused, AnyLengthInATable) {
    const TempDir dir;
    const Fielded dataset(true);
    for (const char* target : {"x.h5", "x.npz"}) {
        EXPECT_THAT(
            [&] { pack(dataset, dir / target, {}); },
            ThrowsMessage<InvalidArgument>(HasSubstr("fields of one shape, of at least one element, got boxes of "
                                                     "any length")));
    }
    EXPECT_TRUE(fs::is_empty(dir.path()));
}

class Named final : public Dataset {
  public:
    explicit Named(const char* name, FieldKind kind = FieldKind::value) {
        fields_ = {{.name = name, .kind = kind, .dtype = has_pixels(kind) ? DType::uint8 : DType::float32}};
    }
    std::int64_t size() const override { return 3; }
    std::span<const Field> fields() const override { return fields_; }
    void read(std::int64_t i, Sample& sample) const override {
        sample.copy_elements(std::array<std::uint8_t, 4>{1, 2, 3, static_cast<std::uint8_t>(i)});
        sample.set_raw(sample.storage.bytes(), 2, 2, 1);
        if (has_pixels(fields_[0].kind)) {
            sample.field(0).copy_elements("\x89PNG\r\n\x1a\n and no more");
            sample.field(0).set_encoded_image(sample.field(0).storage.bytes());
        } else {
            sample.field(0).copy_elements(std::vector<float>(i == 1 ? 2 : 1));
        }
    }

  private:
    std::vector<Field> fields_;
};

TEST(PackFieldsRefused, NamesOfTheFormat) {
    const TempDir dir;
    for (const auto& [target, name] : std::multimap<std::string, const char*>{{"x.stk", "label"},
                                                                              {"x.stk", "left eye"},
                                                                              {"x.tar", "cls"},
                                                                              {"x.lmdb", "labels"},
                                                                              {"x.h5", "keys"},
                                                                              {"x.npz", "classes"}}) {
        const auto packs = [&dir, &target = target, &name = name] { pack(Named(name), dir / target, {}); };
        EXPECT_THAT(packs, ThrowsMessage<InvalidArgument>(HasSubstr(name)));
    }
}

TEST(PackFieldsRefused, BadValuesAreBadSamples) {
    const TempDir dir;
    EXPECT_THAT([&] { pack(Named("value"), dir / "x.stk", {}); },
                ThrowsMessage<DataError>(HasSubstr("float32 of () for value, got 8 bytes")));
    EXPECT_EQ(pack(Named("value"), dir / "y.stk", {.skip_bad = true}).skipped.size(), 1U);
    EXPECT_THROW(pack(Named("view", FieldKind::image), dir / "z.stk", {}), DataError);  // it cannot be decoded
}

// The named classes of the source, and a field, so that a table is written.
class Classed final : public Dataset {
  public:
    Classed(std::vector<std::string> classes, std::vector<std::int64_t> labels)
        : classes_(std::move(classes)), labels_(std::move(labels)) {}

    std::int64_t size() const override { return std::ssize(labels_); }
    std::span<const Field> fields() const override { return fields_; }
    std::span<const std::string> classes() const override { return classes_; }
    void read(std::int64_t i, Sample& sample) const override {
        sample.copy_elements(std::array{std::byte{7}});
        sample.set_raw(sample.storage.bytes(), 1, 1, 1);
        sample.label = labels_[static_cast<std::size_t>(i)];
        sample.field(0).copy_elements(std::array{1.5F});
    }

  private:
    std::vector<Field> fields_ = {{.name = "score"}};
    std::vector<std::string> classes_;
    std::vector<std::int64_t> labels_;
};

TEST(UnpackFields, LabelsKeepTheirIndicesAndNames) {
    using Names = std::vector<std::string>;
    for (const Names& classes : {Names{"ape", "bee", "cat"}, Names{"cat", "bee", "ape"}, Names{"0", "1", "10"},
                                 Names{"5", "7", "x"}, Names{"0", "1", "2"}}) {
        for (const std::vector<std::int64_t>& labels : {std::vector<std::int64_t>{2, 0, 1}, {1, 1}, {-1, 2}}) {
            const TempDir dir;
            unpack(Classed(classes, labels), dir.path(), {});
            const auto back = open_dataset(dir.path().string(), Split::train,
                                           {.fields = {.image = {}, .label = {}, .more = {{.name = "score"}}}});
            ASSERT_EQ(back->size(), std::ssize(labels));
            for (std::int64_t i = 0; i < back->size(); ++i) {
                EXPECT_EQ(back->label(i), labels[static_cast<std::size_t>(i)]) << classes.front();
            }
            EXPECT_THAT(back->classes().subspan(0, 2), ::testing::ElementsAre(classes[0], classes[1]));
        }
    }
}

TEST(UnpackFields, ATableAndFolders) {
    const TempDir dir;
    fs::create_directories(dir / "out");
    pack(Fielded(false), dir / "x.stk", {});
    FieldNames names;
    for (const char* name : {"mask", "second", "score", "many", "age"}) {
        names.more.push_back({.name = name});
    }
    const UnpackResult result = unpack(*open_dataset(dir / "x.stk", Split::train, {.fields = names}), dir / "out", {});
    EXPECT_EQ(result.samples, kCount);
    const std::string table = read_text(dir / "out" / "labels.csv");
    EXPECT_THAT(table, HasSubstr("path,label,mask,second,score,many_0,many_1,many_2,many_3,many_4,age\n"));
    EXPECT_THAT(table, HasSubstr("images/1/7.png,1,mask/1/7.png,second/1/7.png,1,7,0,1,-1,49,-13\n"));
    EXPECT_EQ(std::ranges::count(table, '\n'), kCount + 1);
    EXPECT_TRUE(fs::exists(dir / "out" / "images"));
    EXPECT_TRUE(fs::exists(dir / "out" / "mask"));
    fs::create_directories(dir / "ragged");
    EXPECT_THAT([&] { unpack(Fielded(true), dir / "ragged", {}); },
                ThrowsMessage<InvalidArgument>(HasSubstr("point float32 (2, 3)")));
}

}  // namespace
}  // namespace stoker

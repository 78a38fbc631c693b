// Data sets of arrays, written here byte by byte: each file format, each order of elements against a plain loop over
// indices, each kind of label, and the error for each invalid file.
#include "stoker/formats/arrays/array_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fmt/ranges.h>
#include <memory>
#include <string>
#include <vector>

#include "formats/arrays/npz_support.h"
#include "stoker/base/error.h"
#include "stoker/formats/array.h"
#include "stoker/formats/arrays/npy.h"
#include "stoker/formats/arrays/safetensors.h"
#include "stoker/formats/class_names.h"
#include "stoker/formats/open.h"
#include "support/memory_room.h"
#include "support/page_cache.h"
#include "support/put.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::little_endian;
using testing::Member;
using ::testing::Not;
using testing::npy;
using testing::put;
using testing::TempDir;
using testing::zip;

// Bytes 0, 1, 2, ... modulo 251, so that a wrong stride shows.
std::string ramp(std::size_t count) {
    std::string text(count, '\0');
    for (std::size_t i = 0; i < count; ++i) {
        text[i] = static_cast<char>(i % 251);
    }
    return text;
}

std::string int64s(const std::vector<std::int64_t>& values) {
    std::string text;
    for (const std::int64_t value : values) {
        text += little_endian(static_cast<std::uint64_t>(value), 8);
    }
    return text;
}

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string pixels(const Dataset& dataset, std::int64_t index) {
    Sample sample;
    dataset.read(index, sample);
    return text_of(sample.bytes);
}

std::vector<std::int64_t> labels(const Dataset& dataset) {
    std::vector<std::int64_t> found;
    Sample sample;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        found.push_back(dataset.label(i).value());
        dataset.read(i, sample);
        EXPECT_EQ(sample.label, found.back());
    }
    return found;
}

template <typename Kind = DataError>
std::string error_of(const fs::path& path, const FieldNames& fields = {}) {
    try {
        const ArrayDataset dataset(path.string(), Split::train, fields);
    } catch (const Kind& error) {
        return error.what();
    }
    return "opened";
}

std::string images(int count) {
    return npy("|u1", fmt::format("({}, 2, 3)", count), ramp(6 * static_cast<std::size_t>(count)));
}

// ---- kinds of files ----

TEST(ArrayDataset, NpyAlone) {
    const TempDir dir;
    put(dir / "digits.npy", images(3));
    const ArrayDataset dataset((dir / "digits.npy").string(), Split::train);
    EXPECT_EQ(dataset.size(), 3);
    EXPECT_EQ(dataset.format(), "npy");
    EXPECT_EQ(dataset.path(), (dir / "digits.npy").string());
    EXPECT_EQ(dataset.bytes(), static_cast<std::int64_t>(images(3).size()));
    EXPECT_EQ(dataset.key(2), "2");
    EXPECT_THAT(labels(dataset), ElementsAre(-1, -1, -1));
    EXPECT_THAT(dataset.classes(), IsEmpty());
    EXPECT_EQ(pixels(dataset, 1), ramp(12).substr(6));
    for (const std::int64_t index : {-1, 3}) {
        Sample sample;
        EXPECT_THROW(dataset.read(index, sample), InvalidArgument);
        EXPECT_THROW(dataset.label(index), InvalidArgument);
        EXPECT_THROW(dataset.key(index), InvalidArgument);
    }
}

TEST(ArrayDataset, FurtherArraysAreFields) {
    const TempDir dir;
    const std::string angles = ramp(24);
    put(dir / "x.npz",
        zip({Member{"images.npy", images(3)}, Member{"angles.npy", npy("<f4", "(3, 2)", angles)},
             Member{"wide.npy", npy("<u4", "(3,)", ramp(12))}, Member{"two.npy", npy("|u1", "(2,)", ramp(2))}}));
    const std::string path = (dir / "x.npz").string();
    EXPECT_TRUE(ArrayDataset(path, Split::train).fields().empty());
    const ArrayDataset dataset(path, Split::train, {.image = "", .label = "", .more = {{.name = "angles"}}});
    ASSERT_EQ(dataset.fields().size(), 1u);
    EXPECT_EQ(dataset.fields()[0], (Field{.name = "angles", .dtype = DType::float32, .shape = {2}}));
    Sample sample;
    for (std::int64_t i = 0; i < 3; ++i) {
        dataset.read(i, sample);
        EXPECT_EQ(text_of(sample.fields[0].bytes), angles.substr(static_cast<std::size_t>(8 * i), 8));
    }
    EXPECT_THAT(error_of<Unsupported>(path, {.image = "", .label = "", .more = {{.name = "wide"}}}),
                HasSubstr("uint32 of (3)"));
    EXPECT_THAT(error_of(path, {.image = "", .label = "", .more = {{.name = "two"}}}),
                HasSubstr("one row for each image"));
    EXPECT_THAT(error_of(path, {.image = "", .label = "", .more = {{.name = "none"}}}), HasSubstr("none"));
}

TEST(ArrayDataset, BooleansAreMasks) {
    const TempDir dir;
    put(dir / "x.npz", zip({Member{"images.npy", images(3)}, Member{"seg.npy", npy("|b1", "(3, 2, 3)", ramp(18))}}));
    const std::vector<FieldRequest> more = {{.name = "mask", .from = "seg", .kind = FieldKind::mask}};
    Sample sample;
    const ArrayDataset dataset((dir / "x.npz").string(), Split::train, {.image = "", .label = "", .more = more});
    dataset.read(1, sample);
    EXPECT_EQ(text_of(sample.fields[0].bytes), ramp(18).substr(6, 6));
}

TEST(ArrayDataset, NpyWithLabelsBeside) {
    const std::string three = npy(">i4", "(3,)", std::string("\0\0\0\2\0\0\0\0\0\0\0\1", 12));
    for (const auto& [image, label] :
         std::vector<std::pair<std::string, std::string>>{{"images", "labels"},
                                                          {"images", "images_labels"},
                                                          {"digits", "digits_labels"},
                                                          {"x", "labels"},
                                                          {"x", "y"},
                                                          {"train_images", "train_labels"}}) {
        const TempDir dir;
        put(dir / (image + ".npy"), images(3));
        put(dir / (label + ".npy"), three);
        const ArrayDataset dataset((dir / (image + ".npy")).string(), Split::train);
        EXPECT_THAT(labels(dataset), ElementsAre(2, 0, 1)) << image << " " << label;
        EXPECT_THAT(dataset.classes(), ElementsAre("0", "1", "2"));
        EXPECT_EQ(dataset.bytes(), static_cast<std::int64_t>(images(3).size() + three.size()));
    }
    const TempDir dir;
    put(dir / "digits.npy", images(3));
    put(dir / "labels.npy", three);  // not recognised: nothing ties them to digits.npy
    EXPECT_THAT(labels(ArrayDataset((dir / "digits.npy").string(), Split::train)), ElementsAre(-1, -1, -1));
}

TEST(ArrayDataset, FolderOfNpy) {
    const TempDir dir;
    put(dir / "images.npy", images(2));
    put(dir / "labels.npy", npy("|b1", "(2,)", std::string("\1\0", 2)));
    const auto dataset = open_dataset(dir.path().string(), Split::train);
    EXPECT_EQ(dataset->format(), "npy");
    EXPECT_THAT(labels(*dataset), ElementsAre(1, 0));
    EXPECT_FALSE(has_splits(dir.path().string()));
}

std::string keras(bool deflate) {
    return zip({{"x_train.npy", images(3), deflate},
                {"y_train.npy", npy("|u1", "(3,)", std::string("\1\0\1", 3)), deflate},
                {"x_test.npy", npy("|u1", "(1, 2, 3)", "tested"), deflate},
                {"y_test.npy", npy("<i8", "(1, 1)", int64s({2})), deflate}});
}

TEST(ArrayDataset, NpzWithSplits) {
    for (const bool deflate : {false, true}) {
        const TempDir dir;
        const std::string path = (dir / "mnist.npz").string();
        put(path, keras(deflate));
        EXPECT_TRUE(has_splits(path));
        const auto train = open_dataset(path, Split::train);
        EXPECT_EQ(train->format(), "npz");
        EXPECT_EQ(train->size(), 3);
        EXPECT_EQ(train->key(2), "train/2");
        EXPECT_THAT(labels(*train), ElementsAre(1, 0, 1));
        EXPECT_EQ(pixels(*train, 2), ramp(18).substr(12));
        EXPECT_EQ(train->bytes(), static_cast<std::int64_t>(keras(deflate).size()));
        const auto test = open_dataset(path, Split::test);
        EXPECT_EQ(test->key(0), "test/0");
        EXPECT_THAT(labels(*test), ElementsAre(2));
        EXPECT_EQ(pixels(*test, 0), "tested");
    }
}

TEST(ArrayDataset, OnlyWantedMembersAreRead) {
    const TempDir dir;
    put(dir / "d.npz", zip({{"images.npy", images(2), false},
                            {"labels.npy", npy("|u1", "(2,)", "\1\1"), false},
                            {"meta.npy", npy("|O", "()", "pickled"), false},
                            {"readme.txt", "not an array", false}}));
    EXPECT_THAT(labels(ArrayDataset((dir / "d.npz").string(), Split::train)), ElementsAre(1, 1));
    EXPECT_THAT(error_of<Unsupported>(dir / "d.npz", {.image = "", .label = "meta"}),
                AllOf(HasSubstr("meta"), HasSubstr("pickles")));
    EXPECT_THAT(error_of(dir / "d.npz", {.image = "", .label = "readme"}), HasSubstr("got images, labels, meta"));
}

// np.savez stores members uncompressed; their checksums are verified all the same.
TEST(ArrayDataset, AFlippedByteOfAStoredMemberIsFound) {
    const TempDir dir;
    const std::string file =
        zip({{"images.npy", images(300), false}, {"labels.npy", npy("|u1", "(300,)", std::string(300, '\1')), false}});
    put(dir / "d.npz", file);
    EXPECT_EQ(labels(ArrayDataset((dir / "d.npz").string(), Split::train)).size(), 300u);
    const std::size_t pixel = file.find("labels.npy") - 500;
    const std::size_t label = file.find("PK\1\2") - 1;
    for (const std::size_t at : {pixel, label}) {
        std::string damaged = file;
        damaged[at] = static_cast<char>(damaged[at] ^ 4);
        put(dir / "d.npz", damaged);
        EXPECT_THAT(error_of(dir / "d.npz"),
                    HasSubstr(at == pixel ? "\"images.npy\" with checksum" : "\"labels.npy\" with checksum"));
    }
}

TEST(ArrayDataset, ClassesAndKeys) {
    const TempDir dir;
    const Member image{"pixels.npy", images(2), false};
    const Member label{"labels.npy", npy("|u1", "(2,)", std::string("\1\0", 2)), true};
    const Member classes{"classes.npy", npy("|S3", "(2,)", "catdog"), true};
    const Member keys{"keys.npy", npy("|S7", "(2,)", "dog/1.xcat/1.x"), false};
    put(dir / "d.npz", zip({image, label, classes, keys}));
    const ArrayDataset dataset((dir / "d.npz").string(), Split::train);
    EXPECT_THAT(dataset.classes(), ElementsAre("cat", "dog"));
    EXPECT_EQ(dataset.key(0), "dog/1.x");
    EXPECT_EQ(dataset.key(1), "cat/1.x");
    put(dir / "few.npz", zip({image, label, {"classes.npy", npy("|S3", "(1,)", "cat"), false}}));
    EXPECT_THAT(error_of(dir / "few.npz"), HasSubstr("expected names of all classes, 0 to 1, got 1"));
    put(dir / "lost.npz", zip({image, label, {"keys.npy", npy("|S3", "(1,)", "cat"), false}}));
    EXPECT_THAT(error_of(dir / "lost.npz"), HasSubstr("expected 2 keys, one for each image, got 1"));
    put(dir / "twice.npz", zip({image, label, {"keys.npy", npy("|S1", "(2,)", "aa"), false}}));
    EXPECT_THAT(error_of(dir / "twice.npz"), HasSubstr("got \"a\" twice"));
}

TEST(ArrayDataset, Safetensors) {
    const TempDir dir;
    std::string image = ramp(18);
    std::vector<std::int64_t> label = {4, 0, 2};
    write_safetensors(dir / "d.safetensors",
                      {{"images", {reinterpret_cast<std::byte*>(image.data()), DType::uint8, {3, 2, 3}}},
                       {"labels", {reinterpret_cast<std::byte*>(label.data()), DType::int64, {3}}},
                       {"weights", {reinterpret_cast<std::byte*>(label.data()), DType::bfloat16, {3}}}});
    const ArrayDataset dataset((dir / "d.safetensors").string(), Split::train);
    EXPECT_EQ(dataset.format(), "safetensors");
    EXPECT_THAT(labels(dataset), ElementsAre(4, 0, 2));
    EXPECT_EQ(dataset.classes().size(), 5U);
    EXPECT_EQ(pixels(dataset, 2), ramp(18).substr(12));
    EXPECT_THAT(error_of<DataError>(dir / "d.safetensors", {.image = "", .label = "weights"}),
                HasSubstr("bfloat16 of (3)"));
}

TEST(ArrayDataset, UnknownEnding) {
    EXPECT_THAT(error_of<Unsupported>("d.txt"), HasSubstr(".npz"));
    EXPECT_FALSE(is_array_path("d.txt"));
    EXPECT_FALSE(is_array_path("/nowhere/d.npy"));
    EXPECT_THROW(open_dataset("/nowhere/d.npz", Split::train), IoError);
    EXPECT_THROW(ArrayDataset("/nowhere/d.npy", Split::train), IoError);
}

// ---- elements ----

// Pixels (H, W, C) of sample `index` of an array whose element i, in C order, is i modulo 251.
std::string expected_pixels(const Shape& shape, const ImageArray& image, std::size_t index) {
    const auto height = static_cast<std::size_t>(image.height);
    const auto width = static_cast<std::size_t>(image.width);
    const auto channels = static_cast<std::size_t>(image.channels);
    const std::size_t first = index * height * width * channels;
    std::string out;
    for (std::size_t y = 0; y < height; ++y) {
        for (std::size_t x = 0; x < width; ++x) {
            for (std::size_t c = 0; c < channels; ++c) {
                const std::size_t at = image.planes ? (c * height + y) * width + x : (y * width + x) * channels + c;
                out += static_cast<char>((first + at) % 251);
            }
        }
    }
    EXPECT_EQ(out.size() * static_cast<std::size_t>(shape[0]), static_cast<std::size_t>(element_count(shape)));
    return out;
}

// The ramp in Fortran order: the first index varies fastest.
std::string fortran_ramp(const Shape& shape) {
    const auto count = static_cast<std::size_t>(element_count(shape));
    std::string out(count, '\0');
    for (std::size_t i = 0; i < count; ++i) {
        std::size_t place = 0;
        std::size_t step = count;
        std::size_t rest = i;
        for (std::size_t side = shape.size(); side-- > 0;) {
            const auto length = static_cast<std::size_t>(shape[side]);
            step /= length;
            place += rest % length * step;
            rest /= length;
        }
        out[place] = static_cast<char>(i % 251);
    }
    return out;
}

TEST(ArrayDataset, EveryOrderOfElements) {
    const TempDir dir;
    for (const Shape& shape :
         {Shape{3, 4, 5}, Shape{2, 4, 5, 3}, Shape{2, 3, 4, 5}, Shape{2, 1, 4, 5}, Shape{1, 4, 5, 2},
          Shape{2, 200, 100}, Shape{2, 100, 80, 3}, Shape{2, 3, 100, 80}, Shape{1, 1, 1}}) {
        for (const bool fortran : {false, true}) {
            put(dir / "x.npy",
                npy("|u1", fmt::format("({})", fmt::join(shape, ", ")),
                    fortran ? fortran_ramp(shape) : ramp(static_cast<std::size_t>(element_count(shape))), fortran));
            const ArrayDataset dataset((dir / "x.npy").string(), Split::train);
            const ImageArray image = image_array({}, Shape(shape.begin() + 1, shape.end()));
            Sample sample;  // reused, as in a worker
            for (std::int64_t index = dataset.size(); index-- > 0;) {
                dataset.read(index, sample);
                EXPECT_EQ(text_of(sample.bytes), expected_pixels(shape, image, static_cast<std::size_t>(index)))
                    << fmt::format("({}) {} {}", fmt::join(shape, ", "), fortran, index);
                EXPECT_FALSE(sample.encoded);
                EXPECT_EQ((Shape{sample.height, sample.width, sample.channels}),
                          (Shape{image.height, image.width, image.channels}));
            }
        }
    }
}

TEST(ArrayDataset, SamplesInMemoryAreViewsLargeOnesElsewhereAreRead) {
    const TempDir dir;
    Sample sample;
    put(dir / "x.npy", npy("|u1", "(2, 127, 129)", ramp(2 * 127 * 129)));
    const ArrayDataset small((dir / "x.npy").string(), Split::train);
    small.read(1, sample);
    EXPECT_EQ(sample.storage.size(), 0U);
    EXPECT_EQ(sample.bytes.size(), 127U * 129U);

    put(dir / "large.npy", npy("|u1", "(2, 512, 512)", ramp(2 * 512 * 512)));
    put(dir / "large.npz", zip({{"x.npy", npy("|u1", "(2, 512, 512)", ramp(2 * 512 * 512)), false}}));
    for (const char* name : {"large.npy", "large.npz"}) {
        const auto open = [&] {
            return [dataset = std::make_shared<ArrayDataset>((dir / name).string(), Split::train)] {
                Sample one;
                dataset->read(1, one);
                EXPECT_EQ(text_of(one.bytes), ramp(2 * 512 * 512).substr(512 * 512));
                return one.bytes.data() == one.storage.data();
            };
        };
        const auto seen = testing::read_cold_and_warm(dir / name, 512 * 512, 512 * 512, open);
        EXPECT_EQ(seen.copied_cold, seen.was_cold) << name;
        EXPECT_TRUE(seen.viewed_warm) << name;
        const ArrayDataset large((dir / name).string(), Split::train);
        fs::resize_file(dir / name, 20'000);
        EXPECT_THROW(large.read(1, sample), IoError);  // not SIGBUS
    }
}

TEST(ArrayDataset, ImagesThatAreNone) {
    const TempDir dir;
    const auto error = [&](std::string_view descr, std::string_view shape, std::size_t bytes) {
        put(dir / "x.npy", npy(descr, shape, std::string(bytes, '\0')));
        return error_of(dir / "x.npy");
    };
    const auto no_images = HasSubstr("image, (N, H, W), (N, H, W, C) or (N, C, H, W), got");
    EXPECT_THAT(error("|u1", "()", 1), no_images);
    EXPECT_THAT(error("|u1", "(4,)", 4), no_images);
    EXPECT_THAT(error("|u1", "(2, 2, 2, 1, 2, 1)", 16), no_images);
    EXPECT_THAT(error("|u1", "(2, 784)", 1568), HasSubstr("reshape the rows to (N, H, W)"));
    EXPECT_THAT(error("|u1", "(0, 2, 3)", 0), HasSubstr("at least one clip"));
    EXPECT_THAT(error("|u1", "(2, 0, 3)", 0), HasSubstr("sides of 1 to 65535"));
    EXPECT_THAT(error("|u1", "(1, 65, 1, 65)", 4225), HasSubstr("C being 1 to 64"));
    EXPECT_THAT(error("|u1", "(2, 2, 2)", 7),
                AllOf(HasSubstr("x.npy"), HasSubstr("expected 8 bytes"), Not(HasSubstr("\n"))));
    EXPECT_THAT(error("<i8", "(1, 2, 2)", 32), AllOf(HasSubstr("x.npy"), HasSubstr("int64 of (2, 2)")));
    put(dir / "x.npz", zip({{"images.npy", npy("|S2", "(2,)", "abcd"), false}}));
    EXPECT_THAT(error_of(dir / "x.npz"), HasSubstr("expected images, got text"));
}

// ---- labels ----

std::vector<std::int64_t> labels_of(std::string_view descr_npy, std::int64_t count) {
    return array_labels(parse_npy(as_bytes(descr_npy)), count);
}

std::string label_error(const std::string& file, std::int64_t count) {
    try {
        labels_of(file, count);
    } catch (const DataError& error) {
        return error.what();
    }
    return "taken";
}

TEST(ArrayLabels, Integers) {
    EXPECT_THAT(labels_of(npy("<i8", "(3,)", int64s({5, -1, 0})), 3), ElementsAre(5, -1, 0));
    EXPECT_THAT(labels_of(npy("<i8", "(3, 1)", int64s({5, -1, 0}), true), 3), ElementsAre(5, -1, 0));
    EXPECT_THAT(labels_of(npy(">u2", "(2,)", std::string("\1\0\0\7", 4)), 2), ElementsAre(256, 7));
    EXPECT_THAT(labels_of(npy("|b1", "(2,)", std::string("\1\0", 2)), 2), ElementsAre(1, 0));
    EXPECT_THAT(label_error(npy("<i8", "(2,)", int64s({0, -2})), 2), AllOf(HasSubstr("-2"), HasSubstr("1")));
    EXPECT_THAT(label_error(npy("<u8", "(2,)", int64s({0, -1})), 2), HasSubstr("2^63 or more"));
    EXPECT_THAT(label_error(npy("<i8", "(2,)", int64s({0, 1})), 3), HasSubstr("expected 3 labels"));
    EXPECT_THAT(label_error(npy("<f4", "(1,)", "abcd"), 1), HasSubstr("got float32 of (1)"));
    EXPECT_THAT(label_error(npy("<f4", "(1, 1)", "abcd"), 1), HasSubstr("got float32 of (1, 1)"));
    EXPECT_THAT(label_error(npy("|u1", "()", "a"), 1), HasSubstr("integers of (N)"));
    EXPECT_THAT(label_error(npy("|u1", "(1, 1, 1)", "a"), 1), HasSubstr("integers of (N)"));
    EXPECT_THAT(label_error(npy("|u1", "(1, 0)", ""), 1), HasSubstr("integers of (N)"));
}

TEST(ArrayLabels, OneHotRows) {
    EXPECT_THAT(labels_of(npy("|u1", "(3, 2)", std::string("\1\0\0\1\1\0", 6)), 3), ElementsAre(0, 1, 0));
    EXPECT_THAT(labels_of(npy("|u1", "(3, 2)", std::string("\1\0\1\0\1\0", 6), true), 3), ElementsAre(0, 1, 0));
    const std::string one16 = little_endian(0x3C00, 2);
    const std::string one32 = little_endian(0x3F800000, 4);
    const std::string one64 = little_endian(0x3FF0000000000000, 8);
    EXPECT_THAT(labels_of(npy("<f2", "(1, 3)", std::string(4, '\0') + one16), 1), ElementsAre(2));
    EXPECT_THAT(labels_of(npy("<f4", "(1, 3)", std::string(4, '\0') + one32 + little_endian(0x80000000, 4)), 1),
                ElementsAre(1));
    EXPECT_THAT(labels_of(npy("<f8", "(1, 2)", one64 + little_endian(std::uint64_t{1} << 63, 8)), 1), ElementsAre(0));
    EXPECT_THAT(labels_of(npy(">f4", "(1, 2)", std::string(one32.rbegin(), one32.rend()) + std::string(4, '\0')), 1),
                ElementsAre(0));
    EXPECT_THAT(labels_of(npy("<i8", "(2, 2)", int64s({0, 1, 1, 0})), 2), ElementsAre(1, 0));
    for (const std::string& bad :
         {int64s({0, 1, 0, 0}), int64s({0, 1, 1, 1}), int64s({0, 1, 2, 0}), int64s({0, 1, -1, 1})}) {
        EXPECT_THAT(label_error(npy("<i8", "(2, 2)", bad), 2),
                    AllOf(HasSubstr("one-hot"), HasSubstr("int64 of (2, 2)")));
    }
    EXPECT_THAT(label_error(npy("<f4", "(1, 2)", one32 + little_endian(0x3F000000, 4)), 1), HasSubstr("one-hot"));
}

TEST(ArrayLabels, NumberedClasses) {
    const auto of = [](const std::vector<std::int64_t>& labels) { return numbered_classes_of(labels); };
    EXPECT_THAT(of({1, -1, 2}), ElementsAre("0", "1", "2"));
    EXPECT_THAT(of({-1}), IsEmpty());
    EXPECT_THAT(of({}), IsEmpty());
    EXPECT_THAT(of({std::numeric_limits<std::int64_t>::max()}), IsEmpty());  // no memory is allocated for a huge label
    EXPECT_EQ(of({kMaxNumberedClasses - 1}).size(), 1U << 20);
    EXPECT_THAT(of({kMaxNumberedClasses}), IsEmpty());
    EXPECT_THAT(numbered_classes(2), ElementsAre("0", "1"));
    EXPECT_THAT(numbered_classes(-1), IsEmpty());
}

// A small file with a large array: of pixels, of labels (8 bytes each in memory), or of texts.
TEST(ArrayDataset, WhatTakesTooMuchMemoryIsRefusedInOneLine) {
    const TempDir folder;
    constexpr std::size_t kMany = 16 << 20;
    const Member pixel = {.name = "images.npy", .content = npy("|u1", "(16777216, 1, 1)", std::string(kMany, '\0'))};
    const std::pair<const char*, std::vector<Member>> bombs[] = {
        {"images",
         {{.name = "images.npy",
           .content = npy("|u1", "(90, 1024, 1024)", std::string(90 << 20, '\0')),
           .deflate = true}}},
        {"labels", {pixel, {.name = "labels.npy", .content = npy("|u1", "(16777216,)", std::string(kMany, '\0'))}}},
        {"texts", {pixel, {.name = "keys.npy", .content = npy("|S1", "(16777216,)", std::string(kMany, 'a'))}}},
    };
    for (const auto& [what, members] : bombs) {
        const fs::path path = folder / "x.npz";
        put(path, zip(members));
        const testing::MemoryRoom room(100 * testing::kMiB);
        EXPECT_THAT([&] { open_dataset(path.string(), Split::train); },
                    ::testing::ThrowsMessage<MemoryError>(
                        AllOf(HasSubstr("[" + path.string()), HasSubstr(what), HasSubstr("--memory"))))
            << what;
    }
}

TEST(ArrayDataset, MappedArraysMayBeLargerThanTheMemoryLimit) {
    const TempDir folder;
    const std::string pixels(64 << 20, '\7');
    put(folder / "x.npy", npy("|u1", "(64, 1024, 1024)", pixels));
    put(folder / "x.npz", zip({{.name = "images.npy", .content = npy("|u1", "(64, 1024, 1024)", pixels)}}));
    const testing::MemoryRoom room(16 * testing::kMiB);
    for (const char* name : {"x.npy", "x.npz"}) {
        const auto dataset = open_dataset((folder / name).string(), Split::train);
        Sample sample;
        dataset->read(63, sample);
        EXPECT_EQ(sample.bytes.back(), std::byte{7}) << name;
    }
}

}  // namespace
}  // namespace stoker

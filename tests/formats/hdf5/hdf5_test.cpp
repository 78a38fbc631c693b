// Data sets in HDF5 files that the C library wrote: fields, labels, keys, classes, and the errors for other files.
#include "stoker/formats/hdf5/hdf5.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/hdf5/hdf5_support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/class_names.h"
#include "stoker/formats/hdf5/hdf5_writer.h"
#include "stoker/formats/open.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using namespace stoker::testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Kind>
std::string error_of(const std::filesystem::path& path, const FieldNames& fields = {}) {
    try {
        const Hdf5Dataset dataset(path.string(), Split::train, fields);
    } catch (const Kind& error) {
        EXPECT_THAT(error.what(), HasSubstr(path.filename().string()));
        return error.what();
    }
    return "opened";
}

TEST(Hdf5, ReadsArraysLabelsKeysAndClasses) {
    const TempDir dir;
    const Bytes pixels = noise(5 * 4 * 3, 1);
    {
        H5Writer file(dir / "a.h5");
        file.add_bytes("images", {5, 4, 3}, pixels);
        file.add_integers("labels", {2, 0, 1, 2, 2});
    }
    const auto dataset = open_dataset((dir / "a.h5").string(), Split::train);
    EXPECT_EQ(dataset->format(), "hdf5");
    EXPECT_EQ(dataset->path(), (dir / "a.h5").string());
    EXPECT_EQ(dataset->bytes(), static_cast<std::int64_t>(std::filesystem::file_size(dir / "a.h5")));
    ASSERT_EQ(dataset->size(), 5);
    Sample sample;
    dataset->read(3, sample);
    EXPECT_EQ(bytes_of(sample), part(pixels, 3, 12));
    EXPECT_FALSE(sample.encoded);
    EXPECT_EQ(sample.height, 4);
    EXPECT_EQ(sample.width, 3);
    EXPECT_EQ(sample.channels, 1);
    EXPECT_EQ(sample.label, 2);
    EXPECT_EQ(dataset->label(1), 0);
    EXPECT_EQ(dataset->key(3), "3");
    EXPECT_THAT(dataset->classes(), ElementsAre("0", "1", "2"));
    EXPECT_THROW(dataset->read(5, sample), InvalidArgument);
    EXPECT_THROW(dataset->read(-1, sample), InvalidArgument);
    EXPECT_FALSE(has_splits((dir / "a.h5").string()));
}

TEST(Hdf5, ReadsColourInBothLayouts) {
    const TempDir dir;
    const Bytes rows = noise(2 * 5 * 6 * 3, 2);
    Bytes planes(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::size_t n = i / 90;
        planes[n * 90 + i % 3 * 30 + i % 90 / 3] = rows[i];
    }
    H5Writer(dir / "rows.hdf5").add_bytes("x", {2, 5, 6, 3}, rows);
    H5Writer(dir / "planes.hdf5").add_bytes("x", {2, 3, 5, 6}, planes);
    for (const char* name : {"rows.hdf5", "planes.hdf5"}) {
        const auto dataset = open_dataset((dir / name).string(), Split::train);
        Sample sample;
        dataset->read(1, sample);
        EXPECT_EQ(bytes_of(sample), part(rows, 1, 90)) << name;
        EXPECT_EQ(sample.channels, 3);
        EXPECT_EQ(sample.height, 5);
        EXPECT_EQ(sample.width, 6);
        EXPECT_EQ(sample.label, -1);
        EXPECT_EQ(dataset->label(0), -1);
        EXPECT_TRUE(dataset->classes().empty());
    }
}

TEST(Hdf5, LabelsOfAnyIntegerTypeAndLayout) {
    const TempDir dir;
    const std::vector<std::int64_t> labels = {7, 0, 3, 100};
    struct Case {
        hid_t type;
        Form form;
        Shape shape;
    };
    H5open();
    const Case cases[] = {
        {H5T_STD_I16BE, {}, {4}},
        {H5T_STD_U8LE, {.storage = Storage::compact}, {4}},
        {H5T_STD_I64BE, {.storage = Storage::chunked, .chunk = {3, 1}, .filters = "sd"}, {4, 1}},
        {H5T_STD_U64LE, {.storage = Storage::chunked, .chunk = {2}, .filters = "f"}, {4}},
    };
    for (const Case& one : cases) {
        {
            H5Writer file(dir / "a.h5");
            file.add_bytes("images", {4, 2, 2}, noise(16, 3));
            file.add_integers("y", labels, one.type, one.form, one.shape);
        }
        const Hdf5Dataset dataset((dir / "a.h5").string(), Split::train, {});
        for (std::size_t i = 0; i < labels.size(); ++i) {
            EXPECT_EQ(dataset.label(static_cast<std::int64_t>(i)), labels[i]);
        }
        EXPECT_EQ(dataset.classes().size(), 101u);
    }
}

TEST(Hdf5, GroupsOfSplitsAndNamedFields) {
    const TempDir dir;
    const std::string path = (dir / "a.h5").string();
    const Bytes train = noise(3 * 4, 4);
    const Bytes test = noise(2 * 4, 5);
    {
        H5Writer file(path);
        file.add_bytes("train/images", {3, 2, 2}, train);
        file.add_integers("train/labels", {0, 1, 1});
        file.add_bytes("test/images", {2, 2, 2}, test);
        file.add_integers("test/labels", {1, 0});
        file.add_bytes("other/deep/pixels", {2, 2, 2}, test);
        file.add_integers("other/deep/kinds", {5, 6});
    }
    EXPECT_TRUE(has_splits(path));
    const Hdf5Dataset first(path, Split::train, {});
    EXPECT_EQ(first.size(), 3);
    EXPECT_EQ(first.key(2), "train/2");
    EXPECT_EQ(read(first, 1), part(train, 1, 4));
    const Hdf5Dataset second(path, Split::test, {});
    EXPECT_EQ(second.key(1), "test/1");
    EXPECT_EQ(second.label(0), 1);
    EXPECT_EQ(read(second, 1), part(test, 1, 4));
    const Hdf5Dataset named(path, Split::train, {.image = "other/deep/pixels", .label = "other/deep/kinds"});
    EXPECT_EQ(named.key(1), "1");
    EXPECT_EQ(named.label(1), 6);
    EXPECT_EQ(read(named, 0), part(test, 0, 4));
    EXPECT_THAT(error_of<DataError>(path, {.image = "absent", .label = ""}), HasSubstr("a field named absent"));
}

TEST(Hdf5, KeysAndClassesAreStringsOfEitherKind) {
    const TempDir dir;
    const std::vector<std::string> keys = {"a.png", "", "the third"};
    for (const std::size_t fixed : {0, 9}) {
        const std::string path = (dir / fmt::format("{}.h5", fixed)).string();
        {
            H5Writer file(path);
            file.add_bytes("pixels", {3, 2, 2}, noise(12, 6));  // found because it is the only other field
            file.add_integers("label", {1, 0, -1});
            file.add_texts("keys", keys, fixed);
            file.add_classes(fixed == 0 ? "/" : "/label", {"cat", "dog"}, fixed);
        }
        const Hdf5Dataset dataset(path, Split::train, {});
        EXPECT_THAT(dataset.classes(), ElementsAre("cat", "dog"));
        for (std::size_t i = 0; i < keys.size(); ++i) {
            EXPECT_EQ(dataset.key(static_cast<std::int64_t>(i)), keys[i]);
        }
    }
}

TEST(Hdf5, EqualKeysAreRefused) {
    const TempDir dir;
    {
        H5Writer file(dir / "a.h5");
        file.add_bytes("images", {4, 2, 2}, noise(16, 6));
        file.add_texts("keys", {"a", "b", "c", "b"});
    }
    EXPECT_THAT(error_of<DataError>(dir / "a.h5"), HasSubstr("expected unique names, got \"b\" twice"));
}

TEST(Hdf5, ManyNumberedClasses) {
    const TempDir dir;
    {
        H5Writer file(dir / "a.h5");
        file.add_bytes("images", {2, 2, 2}, noise(8, 6));
        file.add_integers("labels", {kMaxNumberedClasses - 1, 0});
    }
    const Hdf5Dataset dataset((dir / "a.h5").string(), Split::train, {});
    ASSERT_EQ(dataset.classes().size(), static_cast<std::size_t>(kMaxNumberedClasses));
    EXPECT_EQ(dataset.classes().back(), "1048575");
}

// The library's handler of errors belongs to the program.
TEST(Hdf5, TheWriterRestoresTheErrorHandler) {
    const TempDir dir;
    const auto printer = [](hid_t, void*) -> herr_t { return 0; };
    H5E_auto2_t before = nullptr;
    void* data_before = nullptr;
    H5Eget_auto2(H5E_DEFAULT, &before, &data_before);
    H5Eset_auto2(H5E_DEFAULT, printer, &data_before);
    {
        Hdf5Writer file(dir / "a.h5");
        file.begin("images", Hdf5Type::uint8, {1, 1, 1});
        file.append(std::as_bytes(std::span("x", 1)));
        file.end();
        file.finish();
    }
    EXPECT_THROW(Hdf5Writer(dir / "none/a.h5"), IoError);
    H5E_auto2_t after = nullptr;
    void* data_after = nullptr;
    H5Eget_auto2(H5E_DEFAULT, &after, &data_after);
    EXPECT_TRUE(after == static_cast<H5E_auto2_t>(printer) && data_after == &data_before);
    H5Eset_auto2(H5E_DEFAULT, before, data_before);
}

TEST(Hdf5, RefusesWhatItCannotReadOnOneLine) {
    const TempDir dir;
    const auto with = [&](const std::function<void(H5Writer&)>& fill) {
        H5Writer file(dir / "a.h5");
        fill(file);
    };
    H5open();
    with([](H5Writer& file) { file.add_bytes("images", {4, 784}, noise(4 * 784, 15)); });
    EXPECT_THAT(error_of<DataError>(dir / "a.h5"), HasSubstr("of (H, W), (H, W, C) or (C, H, W)"));
    with([](H5Writer& file) { file.add("images", H5T_STD_I64LE, {4, 2, 2}, {}, [](hid_t) {}); });
    EXPECT_THAT(error_of<DataError>(dir / "a.h5"), HasSubstr("got int64 of (2, 2)"));
    with([](H5Writer& file) { file.add_texts("images", {"a", "b"}); });
    EXPECT_THAT(error_of<DataError>(dir / "a.h5"), HasSubstr("got text of (2)"));
    with([](H5Writer& file) { file.add("images", H5T_STD_U8LE, {0, 2, 2}, {}, [](hid_t) {}); });
    EXPECT_THAT(error_of<DataError>(dir / "a.h5"), HasSubstr("expected 1 to 2147483647 images, got 0"));
    with([](H5Writer&) {});
    EXPECT_THAT(error_of<DataError>(dir / "a.h5"), HasSubstr("got no fields"));
    const auto with_labels = [&](const std::function<void(H5Writer&)>& add) {
        with([&](H5Writer& file) {
            file.add_bytes("images", {4, 2, 2}, noise(16, 16));
            add(file);
        });
        return error_of<DataError>(dir / "a.h5");
    };
    EXPECT_THAT(with_labels([](H5Writer& file) {
                    file.add_integers("labels", {1, 2, 3});
                }),
                HasSubstr("expected 4 labels, one for each image, got int64 of (3)"));
    EXPECT_THAT(with_labels([](H5Writer& file) { file.add("labels", H5T_IEEE_F64LE, {4}, {}, [](hid_t) {}); }),
                HasSubstr("got float64 of (4)"));
    EXPECT_THAT(with_labels([](H5Writer& file) {
                    file.add_integers("labels", {1, 2, 3, -2});
                }),
                HasSubstr("or -1 for none, got -2"));
    EXPECT_THAT(with_labels([](H5Writer& file) {
                    file.add_integers("labels", {0, 1, 2, 0});
                    file.add_classes("/", {"a", "b"});
                }),
                HasSubstr("expected a class below 2"));
    with([](H5Writer& file) { file.add_bytes("images", {4, 2, 2}, noise(16, 17)); });
    std::filesystem::resize_file(dir / "a.h5", std::filesystem::file_size(dir / "a.h5") - 1);
    EXPECT_THAT(error_of<DataError>(dir / "a.h5"), HasSubstr("truncated file"));
    write_file(dir / "b.h5", std::string_view("not HDF5"));
    EXPECT_THAT(error_of<DataError>(dir / "b.h5"), AllOf(HasSubstr("expected an HDF5 file"), HasSubstr("signature")));
    EXPECT_THROW(Hdf5Dataset((dir / "absent.h5").string(), Split::train, {}), IoError);
}

TEST(Hdf5, RefusesOtherFiltersAndFilesByName) {
    const TempDir dir;
    const auto write = [&](const std::function<void(hid_t creation)>& set) {
        H5Writer file(dir / "a.h5");
        const hsize_t sides[] = {4, 8, 8};
        const hid_t space = must(H5Screate_simple(3, sides, nullptr));
        const hid_t creation = must(H5Pcreate(H5P_DATASET_CREATE));
        set(creation);
        H5Dclose(must(H5Dcreate2(file.file(), "images", H5T_STD_U8LE, space, H5P_DEFAULT, creation, H5P_DEFAULT)));
        H5Pclose(creation);
        H5Sclose(space);
    };
    const hsize_t chunk[] = {1, 8, 8};
    write([&](hid_t creation) {
        must(H5Pset_chunk(creation, 3, chunk));
        must(H5Pset_nbit(creation));
    });
    EXPECT_THAT(error_of<Unsupported>(dir / "a.h5"), AllOf(HasSubstr("filter nbit, number 5"), HasSubstr("deflate")));
    write([&](hid_t creation) {
        must(H5Pset_chunk(creation, 3, chunk));
        must(H5Pset_deflate(creation, 1));
        must(H5Pset_deflate(creation, 1));
    });
    EXPECT_THAT(error_of<Unsupported>(dir / "a.h5"), HasSubstr("filter deflate twice"));
    write([](hid_t creation) { must(H5Pset_external(creation, "/etc/passwd", 0, H5F_UNLIMITED)); });
    EXPECT_THAT(error_of<Unsupported>(dir / "a.h5"), HasSubstr("got a dataset in external files"));
}

// Two thousand keys that are one text of the heap.
TEST(Hdf5, OneTextManyTimesIsNotCopied) {
    const TempDir dir;
    constexpr std::int64_t kKeys = 2000;
    std::vector<std::string> keys;
    for (std::int64_t i = 0; i < kKeys; ++i) {
        keys.push_back(i == 0 ? std::string(60'000, 'k') : fmt::format("{}", i));
    }
    {
        H5Writer file(dir / "a.h5");
        file.add_bytes("images", {kKeys, 2, 2}, noise(kKeys * 4, 6));
        file.add_texts("keys", keys);
    }
    haddr_t offset = 0;
    {
        const hid_t file = testing::must(H5Fopen((dir / "a.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
        const hid_t dataset = testing::must(H5Dopen2(file, "keys", H5P_DEFAULT));
        offset = H5Dget_offset(dataset);
        H5Dclose(dataset);
        H5Fclose(file);
    }
    std::string bytes = read_text(dir / "a.h5");
    constexpr std::size_t kRecord = 16;
    for (std::size_t i = 1; i < kKeys; ++i) {
        std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), kRecord,
                    bytes.begin() + static_cast<std::ptrdiff_t>(offset + i * kRecord));
    }
    write_file(dir / "a.h5", bytes);
    EXPECT_THAT(error_of<DataError>(dir / "a.h5"), HasSubstr("one text many times"));
}

// bfloat16: 2 bytes with an exponent of 8 bits.
TEST(Hdf5, FloatsOfOtherKindsAreNoNumbers) {
    const TempDir dir;
    const std::string path = (dir / "a.h5").string();
    {
        H5Writer file(path);
        file.add_bytes("images", {3, 2, 2}, noise(12, 6));
        file.add_integers("label", {1, 0, 2});
    }
    {
        const hid_t file = testing::must(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
        const hid_t type = testing::must(H5Tcopy(H5T_IEEE_F32LE));
        testing::must(H5Tset_fields(type, 15, 7, 8, 0, 7));
        testing::must(H5Tset_size(type, 2));
        testing::must(H5Tset_ebias(type, 127));
        const hsize_t count = 3;
        const hid_t space = testing::must(H5Screate_simple(1, &count, nullptr));
        const hid_t dataset =
            testing::must(H5Dcreate2(file, "score", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        H5Dclose(dataset);
        H5Sclose(space);
        H5Tclose(type);
        H5Fclose(file);
    }
    EXPECT_THAT([&] { Hdf5Dataset(path, Split::train, {.image = "", .label = "", .more = {{.name = "score"}}}); },
                ::testing::ThrowsMessage<DataError>(HasSubstr("expected numbers")));
}

}  // namespace
}  // namespace stoker

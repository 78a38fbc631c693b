// Datasets of an HDF5 file as further fields: numbers of all layouts, masks, encoded images and bytes, and datasets
// that are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "formats/hdf5/hdf5_support.h"
#include "stoker/base/error.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using namespace stoker::testing;

constexpr std::int64_t kCount = 9;

class Hdf5Fields : public ::testing::Test {
  protected:
    std::string path() const { return (dir_ / "x.h5").string(); }

    // A file with images, and what `write` adds.
    void make(const std::function<void(H5Writer&)>& write) const {
        H5Writer file(path());
        file.add_bytes("images", {kCount, 4, 3}, noise(kCount * 12, 1));
        file.add_integers("labels", {0, 1, 2, 0, 1, 2, 0, 1, 2});
        write(file);
    }

    Hdf5Dataset open(std::vector<FieldRequest> more, Hdf5Access access = Hdf5Access::fast) const {
        return {path(), Split::train, {.image = "", .label = "", .more = std::move(more)}, access};
    }

    static void add_floats(H5Writer& file, const std::string& name, const Shape& shape,
                           const std::vector<float>& numbers, const Form& form = {}) {
        file.add(name, H5T_IEEE_F32LE, shape, form, [&](hid_t dataset) {
            must(H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()));
        });
    }

    TempDir dir_;
};

std::vector<float> ramp(std::int64_t count) {
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = static_cast<float>(i) / 4;
    }
    return numbers;
}

// As h5py stores them: an enumeration of FALSE and TRUE.
TEST_F(Hdf5Fields, Booleans) {
    std::vector<std::uint8_t> flags(kCount * 12);
    for (std::size_t i = 0; i < flags.size(); ++i) {
        flags[i] = i % 3 == 0 ? 1 : 0;
    }
    make([&](H5Writer& file) {
        const hid_t type = must(H5Tenum_create(H5T_NATIVE_INT8));
        for (const std::int8_t value : {std::int8_t{0}, std::int8_t{1}}) {
            must(H5Tenum_insert(type, value == 0 ? "FALSE" : "TRUE", &value));
        }
        const auto write = [&](hid_t dataset) {
            must(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, flags.data()));
        };
        file.add("mask", type, {kCount, 4, 3}, {.storage = Storage::chunked, .chunk = {2, 4, 3}, .filters = "d"},
                 write);
        file.add("flags", type, {kCount, 12}, {}, write);
        H5Tclose(type);
    });
    const Hdf5Dataset dataset =
        open({{.name = "mask", .kind = FieldKind::mask}, {.name = "flags", .kind = FieldKind::label}});
    EXPECT_EQ(describe_fields(dataset.fields()), "mask mask, flags uint8 (12)");
    Sample sample;
    for (std::int64_t i = 0; i < kCount; ++i) {
        dataset.read(i, sample);
        EXPECT_EQ(sample.fields[0].height, 4);
        for (const FieldValue& value : sample.fields) {
            EXPECT_EQ(std::memcmp(value.bytes.data(), flags.data() + 12 * i, 12), 0) << i;
        }
    }
}

TEST_F(Hdf5Fields, NumbersOfAllLayouts) {
    const std::vector<float> numbers = ramp(kCount * 6);
    const std::vector<Form> forms = {{},
                                     {.storage = Storage::compact},
                                     {.storage = Storage::chunked, .chunk = {2, 2, 2}, .filters = "sd"},
                                     {.storage = Storage::chunked, .chunk = {4, 3, 2}, .filters = "sdf"},
                                     {.storage = Storage::chunked, .chunk = {1, 3, 2}}};
    for (const Form& form : forms) {
        make([&](H5Writer& file) { add_floats(file, "points", {kCount, 3, 2}, numbers, form); });
        for (const Hdf5Access access : {Hdf5Access::fast, Hdf5Access::library}) {
            const auto dataset = open({{.name = "p", .from = "points"}}, access);
            EXPECT_EQ(describe_fields(dataset.fields()), "p float32 (3, 2)");
            Sample sample;
            for (std::int64_t i = kCount - 1; i >= 0; --i) {
                dataset.read(i, sample);
                EXPECT_EQ(sample.label, i % 3);
                const auto expected = std::span(numbers).subspan(static_cast<std::size_t>(6 * i), 6);
                EXPECT_TRUE(std::ranges::equal(sample.fields[0].bytes, std::as_bytes(expected)));
            }
        }
    }
}

TEST_F(Hdf5Fields, AFillValueOfFloatsStandsForMissingChunks) {
    make([](H5Writer& file) {
        const std::vector<hsize_t> sides = {kCount};
        const hid_t space = must(H5Screate_simple(1, sides.data(), nullptr));
        const hid_t creation = must(H5Pcreate(H5P_DATASET_CREATE));
        const hsize_t chunk = 3;
        const float fill = 2.5F;
        must(H5Pset_chunk(creation, 1, &chunk));
        must(H5Pset_fill_value(creation, H5T_NATIVE_FLOAT, &fill));
        const hid_t dataset =
            must(H5Dcreate2(file.file(), "f", H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
        H5Dclose(dataset);
        H5Pclose(creation);
        H5Sclose(space);
    });
    Sample sample;
    open({{.name = "f"}}).read(4, sample);
    float number = 0;
    std::memcpy(&number, sample.fields[0].bytes.data(), sizeof number);
    EXPECT_EQ(number, 2.5F);
}

TEST_F(Hdf5Fields, MasksImagesAndBytes) {
    const Bytes masks = noise(kCount * 12, 2);
    std::vector<Bytes> rows;
    for (std::int64_t i = 0; i < kCount; ++i) {
        Bytes row = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
        row.resize(row.size() + static_cast<std::size_t>(i), 'x');
        rows.push_back(row);
    }
    make([&](H5Writer& file) {
        file.add_bytes("masks", {kCount, 4, 3}, masks);
        file.add_sequences("views", rows);
    });
    const auto dataset = open({{.name = "mask", .from = "masks", .kind = FieldKind::mask},
                               {.name = "view", .from = "views"},
                               {.name = "raw", .from = "views", .kind = FieldKind::bytes},
                               {.name = "numbers", .from = "masks"}});
    EXPECT_EQ(describe_fields(dataset.fields()), "mask mask, view image, raw uint8 (-1), numbers uint8 (4, 3)");
    Sample sample;
    dataset.read(5, sample);
    EXPECT_EQ(sample.fields[0].height, 4);
    EXPECT_EQ(sample.fields[0].width, 3);
    EXPECT_EQ(sample.fields[0].channels, 1);
    EXPECT_EQ(std::memcmp(sample.fields[0].bytes.data(), masks.data() + 60, 12), 0);
    EXPECT_TRUE(sample.fields[1].encoded);
    EXPECT_EQ(sample.fields[1].bytes.size(), rows[5].size());
    EXPECT_EQ(sample.fields[2].bytes.size(), rows[5].size());
    EXPECT_EQ(describe_fields(open({}).stored_fields()), "masks mask, views image");
}

TEST_F(Hdf5Fields, WhatIsNoFieldIsRefused) {
    make([](H5Writer& file) {
        file.add_integers("few", {1, 2, 3});
        file.add_integers("big", {1, 2, 3, 4, 5, 6, 7, 8, 9}, H5T_STD_I64BE);
        file.add_texts("texts", {"a", "b", "c", "d", "e", "f", "g", "h", "i"});
    });
    EXPECT_THAT([&] { open({{.name = "none"}}); },
                ThrowsMessage<DataError>(HasSubstr("a dataset none, got big, few, images, labels, texts")));
    EXPECT_THAT([&] { open({{.name = "few"}}); }, ThrowsMessage<DataError>(HasSubstr("numbers of (9, ...)")));
    EXPECT_THAT([&] { open({{.name = "texts"}}); }, ThrowsMessage<DataError>(HasSubstr("text of (9)")));
    EXPECT_THAT([&] { open({{.name = "big"}}); }, ThrowsMessage<Unsupported>(HasSubstr("int64 (big-endian)")));
    EXPECT_THAT([&] { open({{.name = "again", .from = "labels", .kind = FieldKind::mask}}); },
                ThrowsMessage<Unsupported>(HasSubstr("mask of uint8 (H, W)")));
    EXPECT_TRUE(open({}).stored_fields().empty());
}

}  // namespace
}  // namespace stoker

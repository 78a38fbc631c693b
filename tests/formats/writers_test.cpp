// Bytes that our writers make, read by our readers. That others read them too is tests/python/test_pack_targets.py's.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/arrays/npz_writer.h"
#include "stoker/formats/hdf5/hdf5.h"
#include "stoker/formats/hdf5/hdf5_writer.h"
#include "stoker/formats/lmdb/lmdb_writer.h"
#include "stoker/formats/open.h"
#include "stoker/formats/pickle/pickle.h"
#include "stoker/formats/pickle/pickle_writer.h"
#include "stoker/formats/webdataset/tar_reader.h"
#include "stoker/formats/webdataset/tar_writer.h"
#include "stoker/io/append_file.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using testing::TempDir;
namespace fs = std::filesystem;

std::vector<std::byte> numbers(std::size_t count) {
    std::vector<std::byte> bytes(count);
    for (std::size_t i = 0; i < count; ++i) {
        bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
    }
    return bytes;
}

TEST(TarWriter, NamesAndSizesOfAllKinds) {
    const TempDir dir;
    std::vector<std::string> names = {"a.jpg", "ü.jpg", "line\nbreak", "100%"};
    for (std::size_t size = 88; size < 103; ++size) {  // about the field's length, and a record of 99, 100, 101 bytes
        names.emplace_back(size, 'n');
    }
    names.push_back(std::string(5000, 'p') + ".jpg");
    const auto bytes = numbers(3000);
    {
        AppendFile file(dir / "x.tar");
        for (std::size_t i = 0; i < names.size(); ++i) {
            const std::uint64_t before = file.size();
            const std::span<const std::byte> pieces[] = {std::span(bytes).first(i * 128), std::span(bytes).first(i)};
            append_tar_member(file, names[i], pieces);
            EXPECT_EQ(file.size() - before, tar_member_size(names[i], i * 129));
        }
        append_tar_end(file);
        file.sync();
        EXPECT_THROW(append_tar_member(file, "", {}), InvalidArgument);
        EXPECT_THROW(append_tar_member(file, std::string_view("a\0b", 3), {}), InvalidArgument);
    }
    const File file(dir / "x.tar");
    TarReader reader("x.tar", file.info().size,
                     [&](std::uint64_t offset, std::span<std::byte> out) { file.read(offset, out); });
    TarMember member;
    for (std::size_t i = 0; i < names.size(); ++i) {
        ASSERT_TRUE(reader.next(member));
        EXPECT_EQ(member.name, names[i]);
        ASSERT_EQ(member.payload.size, i * 129);
        const auto read = reader.bytes(member.payload);
        EXPECT_TRUE(std::ranges::equal(read.first(i * 128), std::span(bytes).first(i * 128)));
    }
    EXPECT_FALSE(reader.next(member));
}

TEST(PickleWriter, WhatIsWrittenIsRead) {
    std::vector<std::byte> out;
    PickleWriter writer(out);
    const auto pixels = numbers(24);
    writer.begin_dict();
    writer.text("text");
    writer.text("日本");
    writer.text("list");
    writer.begin_list();
    for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
        writer.integer(value);
    }
    writer.end_list();
    writer.text("bytes");
    writer.bytes(pixels);
    writer.text("array");
    writer.array(DType::uint8, {2, 4, 3}, pixels);
    writer.text("real");
    writer.real(-0.1);
    writer.text("floats");
    writer.array(DType::float32, {3, 2}, pixels);
    writer.end_dict();
    writer.finish();
    Pickle pickle;
    const PickleValue dict = pickle.read(out);
    EXPECT_EQ(dict.find("text")->text(), "日本");
    const PickleValue list = *dict.find("list");
    ASSERT_EQ(list.size(), 4U);
    EXPECT_EQ(list[1].integer(), -1);
    EXPECT_EQ(list[2].integer(), INT64_MAX);
    EXPECT_EQ(list[3].integer(), INT64_MIN);
    EXPECT_TRUE(std::ranges::equal(dict.find("bytes")->bytes(), pixels));
    const ArrayView array = dict.find("array")->array();
    EXPECT_EQ(array.shape, (Shape{2, 4, 3}));
    EXPECT_TRUE(array.type.is_uint8() && !array.fortran);
    EXPECT_TRUE(std::ranges::equal(array.bytes, pixels));
    EXPECT_EQ(dict.find("real")->real(), -0.1);
    const ArrayView floats = dict.find("floats")->array();
    EXPECT_EQ(floats.shape, (Shape{3, 2}));
    EXPECT_EQ(dtype_of_array(floats.type), DType::float32);
    EXPECT_TRUE(std::ranges::equal(floats.bytes, pixels));
    EXPECT_THROW(writer.array(DType::bfloat16, {1}, std::span(pixels).first(2)), InvalidArgument);
}

TEST(NpzWriter, ArraysAreRead) {
    const TempDir dir;
    const auto pixels = numbers(5 * 6 * 7);
    const std::vector<std::int64_t> labels = {3, -1, 0, 2, 1};
    {
        AppendFile file(dir / "x.npz");
        NpzWriter npz(file);
        npz.begin("images", "|u1", 1, {5, 6, 7});
        npz.append(std::span(pixels).first(50));
        EXPECT_THROW(npz.end(), InternalError);
        npz.append(std::span(pixels).subspan(50));
        npz.end();
        npz.begin("labels", "<i8", 8, {5});
        npz.append(std::as_bytes(std::span(labels)));
        npz.end();
        npz.begin_texts("keys", text_length("日本ä"), 5);
        for (const char* key : {"a", "日本ä", "", "bc", "😀"}) {
            npz.append_text(key);
        }
        npz.end();
        npz.finish();
        file.sync();
    }
    const auto dataset = open_dataset((dir / "x.npz").string(), Split::train);
    ASSERT_EQ(dataset->size(), 5);
    EXPECT_EQ(dataset->key(1), "日本ä");
    EXPECT_EQ(dataset->key(4), "😀");
    Sample sample;
    dataset->read(3, sample);
    EXPECT_EQ(sample.label, 2);
    EXPECT_TRUE(std::ranges::equal(sample.bytes, std::span(pixels).subspan(3 * 42, 42)));
}

TEST(LmdbWriter, CommitsStayAndTheRestDoesNot) {
    const TempDir dir;
    const auto bytes = numbers(20'000);
    {
        LmdbWriter writer(dir / "x.lmdb");
        for (int i = 0; i < 3000; ++i) {
            writer.put(fmt::format("{:08}", i), std::span(bytes).first(static_cast<std::size_t>(i)));
        }
        writer.commit();
        writer.put("00003000", bytes);
    }
    LmdbWriter writer(dir / "x.lmdb");
    EXPECT_EQ(writer.entries(), 3000U);
    EXPECT_FALSE(writer.get("00003000").has_value());
    EXPECT_TRUE(std::ranges::equal(*writer.get("00001234"), std::span(bytes).first(1234)));
    writer.put("00001234", std::span(bytes).first(7));  // again, before the last
    EXPECT_EQ(writer.get("00001234")->size(), 7U);
    writer.put("__len__", bytes);
    writer.drop_from("00001000");
    EXPECT_EQ(writer.entries(), 1000U);
    writer.drop_from("00001000");
    writer.drop_from("0");
    EXPECT_EQ(writer.entries(), 0U);
}

TEST(LmdbWriter, ManyKeysAreDroppedInParts) {
    const TempDir dir;
    const auto bytes = numbers(100);
    LmdbWriter writer(dir / "x.lmdb");
    for (const bool again : {false, true}) {
        for (int i = 0; i < 40'000; ++i) {
            writer.put(fmt::format("{:08}", i), bytes);
        }
        if (again) {
            writer.commit();
        }
        writer.drop_from("00001000");
        EXPECT_EQ(writer.entries(), 1000U);
        EXPECT_TRUE(writer.get("00000999").has_value());
        EXPECT_FALSE(writer.get("00001000").has_value());
        writer.drop_from("00000000");
        EXPECT_EQ(writer.entries(), 0U);
    }
    writer.put("a", bytes);
    writer.commit();
    EXPECT_EQ(writer.entries(), 1U);
}

// More than the map holds at first, in one value and in many.
TEST(LmdbWriter, TheMapGrows) {
    const TempDir dir;
    std::vector<std::byte> large(std::size_t{300} << 20, std::byte{5});
    LmdbWriter writer(dir / "x.lmdb");
    for (int i = 0; i < 3; ++i) {
        large.back() = static_cast<std::byte>(i);
        writer.put(fmt::format("{:08}", i), large);
    }
    writer.commit();
    EXPECT_EQ(writer.get("00000002")->back(), std::byte{2});
    EXPECT_EQ(writer.get("00000001")->size(), large.size());
}

TEST(LmdbWriter, AnotherFileIsRefused) {
    const TempDir dir;
    write_file(dir / "x.lmdb", std::string(10'000, 'x'));
    EXPECT_THROW(LmdbWriter(dir / "x.lmdb"), DataError);
    EXPECT_THROW(LmdbWriter(dir / "none/x.lmdb"), IoError);
}

TEST(Hdf5Writer, ManyClasses) {
    const TempDir dir;
    std::vector<std::string> classes;
    for (int i = 0; i < 9000; ++i) {  // the attribute alone is larger than old headers hold
        classes.push_back(fmt::format("class ä {}", i));
    }
    const auto pixels = numbers(4 * 6);
    const std::vector<std::int64_t> labels = {8999, 0};
    {
        Hdf5Writer file(dir / "x.h5");
        file.begin("images", Hdf5Type::uint8, {2, 3, 4});
        file.append(std::span(pixels).first(12));
        EXPECT_THROW(file.end(), InternalError);
        file.append(std::span(pixels).subspan(12));
        EXPECT_THROW(file.append(std::span(pixels).first(12)), InternalError);
        file.end();
        file.begin("labels", Hdf5Type::int64, {2});
        file.append(std::as_bytes(std::span(labels)));
        file.attribute("classes", classes);
        file.end();
        file.begin("keys", Hdf5Type::text, {2});
        const std::span<const std::byte> keys[] = {as_bytes("日本"), as_bytes("")};
        file.append(keys);
        file.end();
        file.finish();
    }
    const Hdf5Dataset dataset((dir / "x.h5").string(), Split::train, {});
    EXPECT_TRUE(std::ranges::equal(dataset.classes(), classes));
    EXPECT_EQ(dataset.key(0), "日本");
    Sample sample;
    dataset.read(1, sample);
    EXPECT_TRUE(std::ranges::equal(sample.bytes, std::span(pixels).subspan(12)));
    EXPECT_EQ(sample.label, 0);
    EXPECT_THROW(Hdf5Writer(dir / "none/x.h5"), IoError);
}

}  // namespace
}  // namespace stoker

// Small CIFAR files, binary and pickled, made by the test. test_format_cifar.py compares pickles of Python with
// torchvision.
#include "stoker/formats/idx_cifar/cifar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "formats/pickle/pickle_support.h"
#include "stoker/base/error.h"
#include "stoker/base/rng.h"
#include "support/memory_room.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string planes_of(std::uint64_t seed) {
    Rng rng({.seed = seed});
    std::string planes(3072, '\0');
    for (char& byte : planes) {
        byte = static_cast<char>(rng.below(256));
    }
    return planes;
}

// Pixels (y, x, channel), one by one.
std::string pixels_of(const std::string& planes) {
    std::string pixels;
    for (std::size_t y = 0; y < 32; ++y) {
        for (std::size_t x = 0; x < 32; ++x) {
            for (std::size_t c = 0; c < 3; ++c) {
                pixels += planes[c * 1024 + y * 32 + x];
            }
        }
    }
    return pixels;
}

// Two images in each batch, with the labels 2 * number and 2 * number + 1 modulo 10.
void write_ten(const fs::path& folder) {
    for (int number = 0; number < 6; ++number) {
        std::string records;
        for (int i = 2 * number; i < 2 * number + 2; ++i) {
            records += static_cast<char>(i % 10) + planes_of(static_cast<std::uint64_t>(i));
        }
        write_file(folder / (number < 5 ? "data_batch_" + std::to_string(number + 1) + ".bin" : "test_batch.bin"),
                   records);
    }
}

void write_hundred(const fs::path& folder) {
    write_file(folder / "train.bin", "\x03\x63" + planes_of(1) + "\x13\x01" + planes_of(2));
    write_file(folder / "test.bin", std::string("\x00\x02", 2) + planes_of(3));
    std::string fine;
    std::string coarse;
    for (int i = 0; i < 100; ++i) {
        fine += "f" + std::to_string(i) + "\n";
        coarse += i < 20 ? "c" + std::to_string(i) + "\n" : "";
    }
    write_file(folder / "fine_label_names.txt", fine);
    write_file(folder / "coarse_label_names.txt", coarse);
}

std::string array_of(const std::string& content, std::int64_t count) {
    return pickled_array(pickled_dtype("u1", "|"), {count, 3072}, content);
}

std::string message_of(const fs::path& folder, const FieldNames& fields = {}) {
    try {
        const CifarDataset source(folder, Split::train, fields);
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

TEST(Cifar, RecordsInOrder) {
    const TempDir folder;
    EXPECT_FALSE(holds_cifar(folder.path()));
    write_ten(folder.path());
    EXPECT_TRUE(holds_cifar(folder.path()));
    const CifarDataset train(folder.path(), Split::train);
    ASSERT_EQ(train.size(), 10);
    EXPECT_EQ(train.bytes(), 10 * 3073);
    EXPECT_EQ(train.classes().size(), 10u);
    Sample sample;
    for (std::int64_t i = 0; i < train.size(); ++i) {
        train.read(i, sample);
        EXPECT_EQ(sample.label, i);
        EXPECT_EQ(train.label(i), i);
        EXPECT_EQ(train.key(i), "train/" + std::to_string(i));
        EXPECT_TRUE(sample.height == 32 && sample.width == 32 && sample.channels == 3 && !sample.encoded);
        EXPECT_EQ(std::string(reinterpret_cast<const char*>(sample.bytes.data()), sample.bytes.size()),
                  pixels_of(planes_of(static_cast<std::uint64_t>(i))));
    }
    EXPECT_THROW(train.read(10, sample), InvalidArgument);
    EXPECT_THROW(static_cast<void>(train.label(-1)), InvalidArgument);
    const CifarDataset test(folder.path(), Split::test);
    EXPECT_EQ(test.size(), 2);
    EXPECT_EQ(test.key(1), "test/1");
    EXPECT_EQ(test.label(1), 1);
}

TEST(Cifar, NamesThatTakeTooMuchMemoryAreRefused) {
    const TempDir folder;
    write_ten(folder.path());
    std::string lines;
    for (int i = 0; i < 3'000'000; ++i) {
        lines += "c\n";
    }
    write_file(folder / "batches.meta.txt", lines);
    EXPECT_EQ(CifarDataset(folder.path(), Split::train).classes().size(), 3'000'000U);
    const MemoryRoom room(60 * kMiB);
    EXPECT_THROW(CifarDataset(folder.path(), Split::train), MemoryError);
}

TEST(Cifar, FineAndCoarseLabels) {
    const TempDir folder;
    write_hundred(folder.path());
    const CifarDataset fine(folder.path(), Split::train);
    const CifarDataset coarse(folder.path(), Split::train, {.image = "", .label = "coarse_labels"});
    EXPECT_EQ(fine.label(0), 99);
    EXPECT_EQ(fine.classes()[99], "f99");
    EXPECT_EQ(coarse.label(0), 3);
    EXPECT_EQ(coarse.label(1), 19);
    EXPECT_EQ(coarse.classes().size(), 20u);
    EXPECT_EQ(CifarDataset(folder.path(), Split::test).label(0), 2);
    EXPECT_THAT(message_of(folder.path(), {.image = "", .label = "colours"}), HasSubstr("coarse_labels"));
    EXPECT_THAT(message_of(folder.path(), {.image = "pictures", .label = ""}), HasSubstr("pictures"));
}

TEST(Cifar, PickledHundred) {
    const TempDir folder;
    write_file(folder / "meta", pickled_dict({"U\020fine_label_names", pickled_tuple({"U\1a", "U\1b", "U\1c"}),
                                              "U\022coarse_label_names", pickled_tuple({"U\1x", "U\1y"})}) +
                                    ".");
    const std::string planes = planes_of(1) + planes_of(2);
    write_file(folder / "train", pickled_dict({"U\4data", array_of(planes, 2), "U\013fine_labels",
                                               pickled_tuple({"K\2", std::string("K\0", 2)}), "U\015coarse_labels",
                                               pickled_tuple({"K\1", "K\1"})}) +
                                     ".");
    const CifarDataset fine(folder.path(), Split::train);
    EXPECT_THAT(fine.classes(), ElementsAre("a", "b", "c"));
    EXPECT_EQ(fine.label(0), 2);
    Sample sample;
    fine.read(1, sample);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(sample.bytes.data()), sample.bytes.size()),
              pixels_of(planes_of(2)));
    const CifarDataset coarse(folder.path(), Split::train, {.image = "data", .label = "coarse_labels"});
    EXPECT_THAT(coarse.classes(), ElementsAre("x", "y"));
    EXPECT_EQ(coarse.label(0), 1);
    EXPECT_THROW(CifarDataset(folder.path(), Split::test), DataError);
}

TEST(Cifar, PicklesThatDoNotFit) {
    const TempDir folder;
    const auto message = [&](const std::string& data, const std::string& labels) {
        write_file(folder / "data_batch_1", pickled_dict({"U\4data", data, "U\6labels", labels}) + ".");
        return message_of(folder.path());
    };
    const std::string one = pickled_tuple({"K\1"});
    const std::string fits = array_of(planes_of(1), 1);
    EXPECT_THAT(message(fits, one), HasSubstr("data_batch_2"));
    EXPECT_THAT(message(fits, pickled_tuple({})), HasSubstr("N labels"));
    EXPECT_THAT(message(pickled_array(pickled_dtype("u1", "|"), {3072}, planes_of(1)), one), HasSubstr("(N, 3072)"));
    EXPECT_THAT(message(pickled_array(pickled_dtype("i1", "|"), {1, 3072}, planes_of(1)), one), HasSubstr("uint8"));
    EXPECT_THAT(message(pickled_array(pickled_dtype("u1", "|"), {1, 3072}, planes_of(1), true), one),
                HasSubstr("uint8"));
    EXPECT_THAT(message("N", one), HasSubstr("a NumPy array"));
    EXPECT_THAT(message(fits, "N"), HasSubstr("list"));
    EXPECT_THAT(message(fits, pickled_tuple({"N"})), HasSubstr("an integer"));
    write_file(folder / "data_batch_1", "N.");
    EXPECT_THAT(message_of(folder.path()), HasSubstr("a dict"));
    write_file(folder / "data_batch_1", "}.");
    EXPECT_THAT(message_of(folder.path()), HasSubstr("a dict with data and labels"));
}

TEST(Cifar, DamagedRecords) {
    const TempDir folder;
    write_ten(folder.path());
    write_file(folder / "data_batch_2.bin", "\x0a" + planes_of(1));
    const CifarDataset source(folder.path(), Split::train);
    Sample sample;
    try {
        source.read(2, sample);
        FAIL();
    } catch (const DataError& error) {
        EXPECT_EQ(error.place().path, (folder / "data_batch_2.bin").string());
        EXPECT_EQ(error.place().offset, 0);
    }
    write_file(folder / "data_batch_2.bin", std::string(3072, 'x'));
    EXPECT_THAT(message_of(folder.path()), HasSubstr("records of 3073 bytes"));
    fs::remove(folder / "data_batch_2.bin");
    EXPECT_THAT(message_of(folder.path()), HasSubstr("data_batch_2.bin"));
    for (int number = 1; number <= 5; ++number) {
        write_file(folder / ("data_batch_" + std::to_string(number) + ".bin"), "");
    }
    EXPECT_THAT(message_of(folder.path()), HasSubstr("at least one image"));
}

}  // namespace
}  // namespace stoker

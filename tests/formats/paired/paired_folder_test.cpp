// Which file belongs to which image, images without one, and the folders that are refused.
#include "stoker/formats/paired/paired_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/open.h"
#include "support/put.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::put;
using testing::TempDir;

std::string error_of(const TempDir& dir, const FieldNames& fields = {}) {
    try {
        const PairedFolder dataset(dir.path().string(), Split::train, fields);
    } catch (const Error& error) {
        return error.what();
    }
    return "opened";
}

TEST(PairedFolder, MasksBelongToImagesByTheirNames) {
    for (const char* masks : {"masks", "annotations", "labels"}) {
        const TempDir dir;
        put(dir / "images/b/1.jpg", "image b1");
        put(dir / "images/b/2.v2.jpeg", "image b2");
        put(dir / "images/a.png", "image a");
        put(dir / "images/lost.jpg", "image lost");
        put(dir / "images/scan.svg");
        put(dir / masks / "b/1.png", "mask b1");
        put(dir / masks / "b/2.v2.PNG", "mask b2");
        put(dir / masks / "a.jpg", "no mask: a JPEG has no class indices");
        put(dir / masks / "a.png", "mask a");
        put(dir / masks / "1.png", "of no image");
        put(dir / "classes.txt", "sky\nroad\n");
        const auto dataset = open_dataset(dir.path().string(), Split::train);
        EXPECT_EQ(dataset->format(), "paired_folder");
        EXPECT_FALSE(has_splits(dir.path().string()));
        ASSERT_EQ(dataset->size(), 4);
        EXPECT_EQ(describe_fields(dataset->fields()), "mask mask");
        EXPECT_EQ(dataset->key(0), "images/a.png");
        EXPECT_EQ(dataset->key(3), "images/b/2.v2.jpeg");
        EXPECT_THAT(dataset->classes(), ElementsAre("sky", "road"));
        Sample sample;
        for (const auto& [index, name] : {std::pair{0, "a"}, {2, "b1"}, {3, "b2"}}) {
            dataset->read(index, sample);
            EXPECT_EQ(as_text(sample.bytes), std::string("image ") + name);
            EXPECT_EQ(as_text(sample.fields[0].bytes), std::string("mask ") + name);
            EXPECT_TRUE(sample.fields[0].encoded);
            EXPECT_EQ(sample.label, -1);
        }
        EXPECT_THAT(dataset->advice(), HasSubstr("1 image without a mask (lost.jpg)"));
        EXPECT_THAT(dataset->advice(), HasSubstr("1 .svg file (scan.svg)"));
        try {
            dataset->read(1, sample);
            FAIL() << "an image without a mask was read";
        } catch (const DataError& error) {
            EXPECT_EQ(error.place().key, "images/lost.jpg");
            EXPECT_THAT(error.what(), HasSubstr(std::string("] expected a file of the same name in ") + masks));
        }
    }
}

TEST(PairedFolder, OtherFoldersAndSecondImages) {
    const TempDir dir;
    put(dir / "photos/1.jpg");
    put(dir / "night/1.webp", "night");
    put(dir / "depth/1.png", "depth");
    const FieldNames fields{.image = "photos",
                            .label = {},
                            .more = {{.name = "night", .kind = FieldKind::image}, {.name = "d", .from = "depth"}}};
    const auto dataset = open_dataset(dir.path().string(), Split::train, {.fields = fields});
    EXPECT_EQ(dataset->format(), "paired_folder");
    EXPECT_EQ(describe_fields(dataset->fields()), "night image, d mask");
    Sample sample;
    dataset->read(0, sample);
    EXPECT_EQ(as_text(sample.fields[0].bytes), "night");
    EXPECT_EQ(as_text(sample.fields[1].bytes), "depth");
}

TEST(PairedFolder, Splits) {
    const TempDir dir;
    for (const char* split : {"training", "validation"}) {
        put(dir / "images" / split / "1.jpg");
        put(dir / "annotations" / split / "1.png", split);
    }
    const std::string path = dir.path().string();
    EXPECT_TRUE(has_splits(path));
    Sample sample;
    for (const auto& [split, name] : {std::pair{Split::train, "training"}, {Split::test, "validation"}}) {
        const auto dataset = open_dataset(path, split);
        ASSERT_EQ(dataset->size(), 1);
        EXPECT_EQ(dataset->key(0), std::string("images/") + name + "/1.jpg");
        dataset->read(0, sample);
        EXPECT_EQ(as_text(sample.fields[0].bytes), name);
    }
}

TEST(PairedFolder, SplitsOfNamedFolders) {
    const TempDir dir;
    for (const char* split : {"train", "val"}) {
        put(dir / "day" / split / "1.jpg");
        put(dir / "night" / split / "1.jpg", split);
    }
    const FieldNames fields{.image = "day", .label = {}, .more = {{.name = "night", .kind = FieldKind::image}}};
    EXPECT_TRUE(has_splits(dir.path().string(), fields));
    const auto dataset = open_dataset(dir.path().string(), Split::test, {.fields = fields});
    ASSERT_EQ(dataset->size(), 1);
    EXPECT_EQ(dataset->key(0), "day/val/1.jpg");
    EXPECT_FALSE(has_splits((dir / "day").string(), fields));
}

TEST(PairedFolder, Refused) {
    const TempDir dir;
    fs::create_directories(dir / "images");
    put(dir / "masks/2.png");
    EXPECT_THAT(error_of(dir), HasSubstr("images] expected images, got none"));
    put(dir / "images/1.jpg");
    EXPECT_THAT(error_of(dir),
                HasSubstr("masks] expected a .png or .tif file for each image, such as masks/1.png, got 1 file, and "
                          "none with an image's name"));
    put(dir / "masks/1.jpg");
    EXPECT_THAT(error_of(dir), HasSubstr("masks/1.png"));
    fs::remove(dir / "masks/2.png");
    EXPECT_THAT(error_of(dir), AllOf(HasSubstr("got 1 file of other types, such as 1.jpg"), HasSubstr("PNG")));
    put(dir / "masks/1.png");
    EXPECT_EQ(error_of(dir), "opened");
    EXPECT_THAT(error_of(dir, {.image = {}, .label = {}, .more = {{.name = "mask", .kind = FieldKind::value}}}),
                HasSubstr("expected a field of kind mask or image, got value"));
}

}  // namespace
}  // namespace stoker

// The order of torchvision's ImageFolder, written out as its make_dataset gives it, and the refused layouts.
#include "stoker/formats/folder/image_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/error.h"
#include "support/data.h"
#include "support/put.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::put;
using testing::TempDir;

std::vector<std::string> keys(const Dataset& dataset) {
    std::vector<std::string> list;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        list.push_back(dataset.key(i));
    }
    return list;
}

std::string error_of(const fs::path& root) {
    try {
        const ImageFolder dataset(root);
        return "";
    } catch (const DataError& error) {
        return error.what();
    }
}

TEST(ImageFolder, OrderIsTorchvisions) {
    const TempDir dir;
    for (const char* name :
         {"b/z.png", "b/a.JPG", "B/10.jpeg", "B/9.jpeg", "\xc3\xa9/1.png", "b/sub/0.png", "b/sub-2/0.png",
          "b/sub/deep/1.jpg", "b/Z.Png", "b/note.txt", "b/jpg", "b/a.jpg.bak", "b/folder.png/in.png", "top.png"}) {
        put(dir / name);
    }
    const ImageFolder dataset(dir.path());
    EXPECT_THAT(dataset.classes(), ElementsAre("B", "b", "\xc3\xa9"));
    // "b" itself first, then its folders by path: '-' comes before '/', so sub-2 comes before sub/deep.
    EXPECT_THAT(keys(dataset),
                ElementsAre("B/10.jpeg", "B/9.jpeg", "b/Z.Png", "b/a.JPG", "b/z.png", "b/folder.png/in.png",
                            "b/sub/0.png", "b/sub-2/0.png", "b/sub/deep/1.jpg", "\xc3\xa9/1.png"));
    Sample sample;
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        dataset.read(i, sample);
        labels.push_back(sample.label);
    }
    EXPECT_THAT(labels, ElementsAre(0, 0, 1, 1, 1, 1, 1, 1, 1, 2));
    EXPECT_EQ(dataset.format(), "image_folder");
    EXPECT_EQ(dataset.path(), dir.path().string());
}

TEST(ImageFolder, EveryTypeThatACodecReads) {
    const TempDir dir;
    for (const char* name :
         {"a/1.WebP", "a/2.bmp", "a/3.ppm", "a/4.pgm", "a/5.svg", "a/6.EXR", "a/b/7.psd", "a/8.pbm", "a/9.PNM"}) {
        put(dir / name);
    }
    const ImageFolder dataset(dir.path());
    EXPECT_THAT(keys(dataset), ElementsAre("a/1.WebP", "a/2.bmp", "a/3.ppm", "a/4.pgm", "a/8.pbm", "a/9.PNM"));
    EXPECT_EQ(
        dataset.advice(),
        "left out: 1 .exr file (a/6.EXR), 1 .psd file (a/b/7.psd), 1 .svg file (a/5.svg): convert to .png or .jpg");
    put(dir / "c/1.svg");
    EXPECT_THAT(error_of(dir.path()),
                HasSubstr("none in 1 of 2 subfolders: c; convert the 4 images of unsupported types"));
}

TEST(ImageFolder, SaysWhatIsLeftOut) {
    const TempDir dir;
    for (const char* name : {"cat/1.jpg", "cat/below/2.jpg", "dog/1.jpg"}) {
        put(dir / name);
    }
    EXPECT_EQ(ImageFolder(dir.path()).advice(), "");
    for (const char* name : {"b.jpg", "a.png", "top.exr", "note.txt", "dog/2.exr", "cat/below/3.SVG", ".c.jpg"}) {
        put(dir / name);
    }
    const ImageFolder dataset(dir.path());
    EXPECT_EQ(dataset.size(), 3);
    EXPECT_EQ(
        dataset.advice(),
        "left out: 2 loose images beside the class folders (a.png, ...); 2 .exr files (top.exr, ...), 1 .svg file "
        "(cat/below/3.SVG): convert to .png or .jpg");
}

TEST(ImageFileList, ListsFoldersAndFilesInOrder) {
    const TempDir dir;
    for (const char* name : {"s/b.jpg", "s/a.png", "s/dog/2.jpg", "s/dog-1/1.jpg", "s/dog/x/0.jpg", "s/n.txt",
                             "s/__MACOSX/._1.jpg", "t/1.jpg", "t/2.exr"}) {
        put(dir / name);
    }
    const std::string s = (dir / "s").string();
    const std::string t = (dir / "t").string();
    // Loose images first, then each subfolder as ImageFolder lists a class.
    const ImageFileList one({s});
    EXPECT_THAT(keys(one), ElementsAre("a.png", "b.jpg", "dog/2.jpg", "dog/x/0.jpg", "dog-1/1.jpg"));
    EXPECT_EQ(one.advice(), "");
    EXPECT_EQ(one.path(), s);
    const ImageFileList several({t + "/1.jpg", s, s + "/n.txt", t, t + "/1.jpg"});
    EXPECT_THAT(keys(several), ElementsAre(t + "/1.jpg", s + "/a.png", s + "/b.jpg", s + "/dog/2.jpg",
                                           s + "/dog/x/0.jpg", s + "/dog-1/1.jpg", t + "/1.jpg", t + "/1.jpg"));
    EXPECT_EQ(several.advice(), "left out: 1 file of other types (" + s + "/n.txt); 1 .exr file (" + t +
                                    "/2.exr): convert to .png or .jpg");
    EXPECT_EQ(several.path(), t + "/1.jpg and 4 more");
    Sample sample;
    for (const ImageFileList* list : {&one, &several}) {
        for (std::int64_t i = 0; i < list->size(); ++i) {
            list->read(i, sample);
            EXPECT_EQ(sample.bytes.size(), 1U);
            EXPECT_EQ(sample.label, -1);
        }
    }
    EXPECT_THROW(ImageFileList({t + "/2.exr"}), DataError);
    EXPECT_THROW(ImageFileList({t + "/none"}).read(0, sample), Error);
}

TEST(ImageFolder, HiddenNamesAreSkipped) {
    const TempDir dir;
    for (const char* name : {"a/1.jpg", "a/._1.jpg", "a/.ipynb_checkpoints/1.jpg", ".ipynb_checkpoints/2.jpg", ".3.jpg",
                             "__MACOSX/a/._1.jpg", "a/__MACOSX/1.jpg", "@eaDir/1.jpg", "lost+found/1", ".git/HEAD",
                             "Thumbs.db", "a/Thumbs.db", ".DS_Store"}) {
        put(dir / name);
    }
    const ImageFolder dataset(dir.path());
    EXPECT_EQ(dataset.advice(), "");
    EXPECT_THAT(dataset.classes(), ElementsAre("a"));
    EXPECT_THAT(keys(dataset), ElementsAre("a/1.jpg"));
    const TempDir only_hidden;
    put(only_hidden / ".cache/1.jpg");
    EXPECT_THAT(error_of(only_hidden.path()), HasSubstr("got no subfolder and 0 images"));
}

TEST(ImageFolder, ReadsWholeFilesIntoReusedMemory) {
    const TempDir dir;
    const std::string long_content(100'000, 'l');
    put(dir / "a/1.jpg", long_content);
    put(dir / "a/2.jpg", "short");
    put(dir / "a/3.jpg", "");
    const ImageFolder dataset(dir.path());
    Sample sample;
    sample.height = 5;  // left over from another dataset
    dataset.read(0, sample);
    EXPECT_TRUE(sample.encoded);
    EXPECT_EQ(sample.height, 0);
    EXPECT_EQ(sample.bytes.size(), long_content.size());
    const std::byte* memory = sample.bytes.data();
    dataset.read(1, sample);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(sample.bytes.data()), sample.bytes.size()), "short");
    EXPECT_EQ(sample.bytes.data(), memory);
    dataset.read(2, sample);
    EXPECT_TRUE(sample.bytes.empty());
    EXPECT_EQ(dataset.bytes(), 100'005);
    EXPECT_THROW(dataset.read(3, sample), InvalidArgument);
    EXPECT_THROW(dataset.key(-1), InvalidArgument);
    fs::remove(dir / "a/2.jpg");
    EXPECT_THROW(dataset.read(1, sample), DataError);
}

TEST(ImageFolder, FollowsLinksButNotInCircles) {
    const TempDir dir;
    const TempDir elsewhere;
    put(dir / "a/1.jpg");
    put(elsewhere / "far/2.jpg");
    fs::create_directory_symlink(elsewhere / "far", dir / "linked");
    fs::create_directory_symlink(elsewhere / "far", dir / "a/more");
    fs::create_symlink(elsewhere / "far/2.jpg", dir / "a/0.jpg");
    fs::create_symlink(elsewhere / "nowhere", dir / "a/broken.jpg");  // torchvision also lists it
    const ImageFolder dataset(dir.path());
    EXPECT_THAT(keys(dataset), ElementsAre("a/0.jpg", "a/1.jpg", "a/broken.jpg", "a/more/2.jpg", "linked/2.jpg"));
    Sample sample;
    EXPECT_THROW(dataset.read(2, sample), DataError);
    EXPECT_EQ(dataset.bytes(), 4);

    fs::create_directory_symlink(dir.path(), dir / "a/circle");
    EXPECT_THAT(error_of(dir.path()), AllOf(HasSubstr("a/circle"), HasSubstr("a link to " + dir.path().string())));
}

TEST(ImageFolder, SaysWhichLayoutIsExpected) {
    const TempDir dir;
    EXPECT_THAT(
        error_of(dir.path()),
        HasSubstr("one subfolder of .jpg, .jpeg, .png, .webp, .bmp, .ppm, .pgm, .pbm, .pnm, .tif, .tiff, .avif, .heic, "
                  ".heif, .jxl, .gif, .jp2, .j2k or .jpx images for each class"));
    put(dir / "1.jpg");
    EXPECT_THAT(error_of(dir.path()), HasSubstr("no subfolder and 1 image; move the images into a subfolder"));
    put(dir / "tables/1.csv");
    EXPECT_THAT(error_of(dir.path()), HasSubstr("none in 1 of 1 subfolder: tables; give the folder whose subfolders"));
    fs::remove_all(dir / "tables");
    put(dir / "full/1.jpg");
    EXPECT_EQ(error_of(dir.path()), "");
    put(dir / "texts/1.txt");
    fs::create_directories(dir / "void/below");
    EXPECT_THAT(error_of(dir.path()), HasSubstr("none in 2 of 3 subfolders: texts, void; remove the subfolders"));
    EXPECT_THROW(ImageFolder(dir / "absent"), IoError);
    EXPECT_THROW(ImageFolder(dir / "1.jpg"), IoError);
}

TEST(ImageFolder, AFolderThatCannotBeReadIsAnError) {
    if (::geteuid() == 0) {
        GTEST_SKIP() << "root reads every folder";
    }
    const TempDir dir;
    put(dir / "a/1.jpg");
    put(dir / "a/closed/2.jpg");
    fs::permissions(dir / "a/closed", fs::perms::none);
    EXPECT_THROW(ImageFolder(dir.path()), IoError);
    fs::permissions(dir / "a/closed", fs::perms::owner_all);
}

TEST(ImageFolder, PhotosAgreeWithASlowListing) {
    STOKER_SKIP_WITHOUT(photos, "photos");
    std::map<std::string, std::set<std::string>> expected;
    std::int64_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(photos)) {
        if (entry.is_regular_file()) {
            const fs::path relative = entry.path().lexically_relative(photos);
            expected[relative.begin()->string()].insert(relative.string());
            bytes += static_cast<std::int64_t>(entry.file_size());
        }
    }
    const ImageFolder dataset(photos);
    EXPECT_EQ(dataset.size(), 96);
    EXPECT_EQ(dataset.bytes(), bytes);
    std::int64_t index = 0;
    Sample sample;
    for (std::int64_t label = 0; const auto& [name, paths] : expected) {
        EXPECT_EQ(dataset.classes()[static_cast<std::size_t>(label)], name);
        for (const std::string& path : paths) {
            EXPECT_EQ(dataset.key(index), path);
            dataset.read(index++, sample);
            EXPECT_EQ(sample.label, label);
            EXPECT_EQ(sample.bytes.size(), fs::file_size(photos / path));
            EXPECT_EQ(sample.bytes[0], std::byte{0xff});  // a JPEG's first byte
        }
        ++label;
    }
    EXPECT_EQ(index, dataset.size());
}

TEST(ImageFolder, SplitsAreNoClasses) {
    const TempDir dir;
    put(dir / "train/cat/1.jpg");
    put(dir / "train/dog/1.jpg");
    put(dir / "val/cat/1.jpg");
    EXPECT_THAT(error_of(dir.path()), AllOf(HasSubstr("the splits train, val with folders of their own"),
                                            HasSubstr("train on \"" + (dir / "train").string() + "\"")));
    fs::remove_all(dir / "val/cat");
    put(dir / "val/1.jpg");  // images without classes, to predict on
    EXPECT_THAT(error_of(dir.path()),
                AllOf(HasSubstr("the splits train, val with folders of their own in train"),
                      HasSubstr("train on \"" + (dir / "train").string() + "\""), HasSubstr("such as those in val")));
    fs::remove_all(dir / "train");
    put(dir / "train/1.jpg");  // without subfolders they may be classes
    EXPECT_EQ(ImageFolder(dir.path()).classes().size(), 2U);
    EXPECT_EQ(ImageFolder(dir.path()).advice(), "");
    put(dir / "sample_submission.csv");
    EXPECT_THAT(error_of(dir.path()), HasSubstr((dir / "sample_submission.csv").string()));
    put(dir / "train.csv");  // which says the classes
    EXPECT_THAT(error_of(dir.path()), HasSubstr((dir / "train.csv").string()));
}

}  // namespace
}  // namespace stoker

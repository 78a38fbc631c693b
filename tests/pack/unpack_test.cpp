// Unpacking gives the packed files back, and no key leads out of the folder.
#include "stoker/pack/unpack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pack/support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/folder/image_folder.h"
#include "stoker/formats/open.h"
#include "stoker/formats/stk/stk.h"
#include "stoker/formats/stk/stk_writer.h"
#include "stoker/pack/pack.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using namespace stoker::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Unpack, GivesTheFolderBack) {
    const TempDir dir;
    make_folder(dir / "images");
    const ImageFolder dataset(dir / "images");
    for (const auto codec : {PackCodec::keep, PackCodec::dct, PackCodec::dct_zstd, PackCodec::dct_ans}) {
        const std::string name(pack_codec_name(codec));
        pack(dataset, dir / (name + ".stk"), {.transcode = {.codec = codec}});
        fs::create_directories(dir / name);
        const StkDataset packed(dir / (name + ".stk"));
        const UnpackResult result = unpack(packed, dir / name, {.workers = 2});
        const ImageFolder back(dir / name);
        EXPECT_EQ(all_of(back), all_of(dataset)) << name;
        EXPECT_EQ(result.samples, 12);
        EXPECT_EQ(result.original + result.same_pixels, 12);
        EXPECT_EQ(result.bytes, back.bytes());
        std::int64_t equal = 0;
        for (std::int64_t i = 0; i < dataset.size(); ++i) {
            const bool same = read_text(dir / "images" / dataset.key(i)) == read_text(dir / name / dataset.key(i));
            EXPECT_EQ(same, packed.image(i).original_file) << name << " " << dataset.key(i);
            equal += same ? 1 : 0;
        }
        EXPECT_EQ(result.original, equal);
    }
}

TEST(Unpack, ADamagedSampleIsNotWritten) {
    const TempDir dir;
    make_folder(dir / "images");
    for (const auto codec : {PackCodec::keep, PackCodec::raw}) {
        const fs::path target = dir / fmt::format("{}.stk", pack_codec_name(codec));
        pack(ImageFolder(dir / "images"), target, {.transcode = {.codec = codec}});
        std::string bytes = read_text(target / "shard-000000.stk");
        const std::size_t last = static_cast<std::size_t>(StkDataset(target).image(0).bytes.size()) - 1;
        bytes[64 + last] = static_cast<char>(bytes[64 + last] ^ 1);  // the end of the first payload
        write_file(target / "shard-000000.stk", bytes);
        const fs::path back = dir / fmt::format("{}-back", pack_codec_name(codec));
        fs::create_directories(back);
        const StkDataset damaged(target);
        EXPECT_THAT([&] { unpack(damaged, back, {}); },
                    ::testing::ThrowsMessage<DataError>(
                        AllOf(HasSubstr("shard-000000.stk: c0/0.jpg (sample 0) @ byte 64"), HasSubstr("of hash"),
                              HasSubstr("the shard is damaged: copy it again, or pack again"))));
        EXPECT_FALSE(fs::exists(back / "c0/0.jpg"));
        EXPECT_FALSE(fs::exists(back / "c0/0.jpg.png"));
        // Packing it again does not give it a new, valid hash.
        EXPECT_THAT([&] { pack(damaged, back / "again.stk", {}); },
                    ::testing::ThrowsMessage<DataError>(HasSubstr("of hash")));
    }
}

TEST(Unpack, RawPixelsBecomePng) {
    const TempDir dir;
    make_folder(dir / "images");
    const ImageFolder dataset(dir / "images");
    pack(dataset, dir / "x.stk", {.transcode = {.codec = PackCodec::raw}});
    fs::create_directories(dir / "back");
    const UnpackResult result = unpack(StkDataset(dir / "x.stk"), dir / "back", {});
    EXPECT_EQ(result.original, 0);
    EXPECT_EQ(result.same_pixels, 12);
    EXPECT_TRUE(fs::exists(dir / "back/c0/0.jpg.png"));
    EXPECT_TRUE(fs::exists(dir / "back/c0/3.png"));
    const auto before = all_of(dataset);
    for (const auto& [key, label, height, width, pixels] : all_of(ImageFolder(dir / "back"))) {
        const std::string name = key.ends_with(".jpg.png") ? key.substr(0, key.size() - 4) : key;
        EXPECT_TRUE(std::ranges::find(before, Seen{name, label, height, width, pixels}) != before.end()) << key;
    }
}

TEST(Unpack, DigitsIntoClassFolders) {
    const TempDir dir;
    const auto digits = open_dataset("synth:digits?count=20", Split::train);
    const UnpackResult result = unpack(*digits, dir.path(), {});
    EXPECT_EQ(result.same_pixels, 20);
    const ImageFolder back(dir.path());
    EXPECT_EQ(back.size(), 20);
    for (std::int64_t i = 0; i < back.size(); ++i) {
        EXPECT_THAT(back.key(i), ::testing::MatchesRegex("[0-9]/.*\\.png"));
    }
}

class Unnamed final : public Dataset {
  public:
    std::int64_t size() const override { return 3; }
    void read(std::int64_t index, Sample& sample) const override {
        sample.storage.resize(1);
        sample.storage.data()[0] = std::byte{7};
        sample.bytes = sample.storage.bytes();
        sample.encoded = false;
        sample.height = sample.width = sample.channels = 1;
        sample.label = index - 1;
    }
};

TEST(Unpack, LabelsWithoutNamesAreFoldersOfTheirNumbers) {
    const TempDir dir;
    unpack(Unnamed(), dir.path(), {});
    for (const char* name : {"unlabelled/0.png", "0/1.png", "1/2.png"}) {
        EXPECT_TRUE(std::filesystem::exists(dir / name)) << name;
    }
}

TEST(Unpack, Names) {
    const std::string png = "\x89PNG\r\n\x1a\n";
    const auto bytes = as_bytes(png);
    EXPECT_EQ(unpacked_name("cat/1.jpg", "cat", false, bytes), "cat/1.jpg");
    EXPECT_EQ(unpacked_name("train/7", "5", false, bytes), "5/train/7.png");
    EXPECT_EQ(unpacked_name("train/7", "5", true, {}), "5/train/7.png");
    EXPECT_EQ(unpacked_name("7", "", false, bytes), "unlabelled/7.png");
    EXPECT_EQ(unpacked_name("a/7.PNG", "", false, bytes), "a/7.PNG");
    EXPECT_EQ(unpacked_name("a/b..c/...", "a", false, bytes), "a/b..c/....png");
    const std::string nul("a/b\0c", 5);
    for (const std::string& key :
         {std::string("../x.jpg"), std::string("cat/../../x.jpg"), std::string("cat/.."), std::string("cat/./x"),
          std::string("cat//x"), std::string("cat/"), std::string(), std::string("/etc/x.jpg"), nul}) {
        EXPECT_THROW(unpacked_name(key, "cat", false, bytes), DataError) << key;
    }
    for (const char* key : {"../x.jpg", "/x.jpg", "a/../x", "..", "."}) {
        EXPECT_THROW(unpacked_name(key, "", false, bytes), DataError) << key;
    }
    for (const char* name : {"..", ".", "a/b", "/", "../b"}) {
        EXPECT_THROW(unpacked_name("x.jpg", name, false, bytes), DataError) << name;
        EXPECT_THROW(unpacked_name(std::string(name) + "/x.jpg", name, false, bytes), DataError) << name;
    }
}

TEST(Unpack, HostileDataSets) {
    const TempDir dir;
    const auto write = [&](const fs::path& path, const std::vector<std::string>& keys,
                           const std::vector<std::string>& classes) {
        StkWriter writer(path, stk_image_schema(classes));
        for (const std::string& key : keys) {
            const StkValue values[] = {StkImage{.bytes = as_bytes("x"), .codec = StkCodec::jpeg}, std::int64_t{0}};
            writer.add(key, values);
        }
        writer.finish("{}");
    };
    write(dir / "up.stk", {"../../escaped.jpg"}, {".."});
    write(dir / "twice.stk", {"c/1.jpg", "c/1.jpg"}, {"c"});
    write(dir / "file-and-folder.stk", {"c/1.jpg", "c/1.jpg/2.jpg"}, {"c"});
    for (const char* name : {"up.stk", "twice.stk", "file-and-folder.stk"}) {
        fs::create_directories(dir / "deep/out");
        EXPECT_THROW(unpack(StkDataset(dir / name), dir / "deep/out", {}), Error) << name;
        fs::remove_all(dir / "deep/out");
    }
    EXPECT_FALSE(fs::exists(dir / "escaped.jpg"));
    EXPECT_FALSE(fs::exists(dir / "deep/escaped.jpg"));
    // A symbolic link in the folder is not followed.
    fs::create_directories(dir / "out");
    fs::create_directories(dir / "elsewhere");
    fs::create_directories(dir / "out/c");
    fs::create_symlink(dir / "elsewhere/1.jpg", dir / "out/c/1.jpg");
    EXPECT_THROW(unpack(StkDataset(dir / "twice.stk"), dir / "out", {}), IoError);
    EXPECT_FALSE(fs::exists(dir / "elsewhere/1.jpg"));
}

}  // namespace
}  // namespace stoker

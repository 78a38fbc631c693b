// Parts that are packed one by one and merged are the bytes of one packing; parts that are missing or do not belong
// together are named.
#include "stoker/pack/stk_parts.h"

#include <gmock/gmock.h>

#include "pack/support.h"
#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/folder/image_folder.h"
#include "support/temp_dir.h"

namespace stoker::stk_parts_test {
namespace {

namespace fs = std::filesystem;
using namespace stoker::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Stopped {};

class StkParts : public ::testing::Test {
  protected:
    void SetUp() override { make_folder(dir_ / "images"); }

    fs::path pack_all(const PackOptions& options, std::int64_t count) {
        const fs::path target = dir_ / "merged/x.stk";
        fs::create_directories(target.parent_path());
        for (std::int64_t index = count - 1; index >= 0; --index) {  // in any order
            pack_part(options, {.index = index, .count = count});
        }
        return target;
    }

    PackResult pack_part(PackOptions options, const PackPart& part) {
        options.part = part;
        return pack(ImageFolder(dir_ / "images"), dir_ / "merged/x.stk", options);
    }

    // What merging the parts of `dir_ / "merged/x.stk"` says.
    std::string refusal() {
        try {
            merge_stk_parts(dir_ / "merged/x.stk", {});
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    }

    TempDir dir_;
};

TEST_F(StkParts, AreTheBytesOfOnePacking) {
    for (const auto codec : {PackCodec::keep, PackCodec::dct, PackCodec::raw}) {
        const PackOptions options{.transcode = {.codec = codec}, .shard_size = 20'000, .workers = 2};
        const PackResult one = pack(ImageFolder(dir_ / "images"), dir_ / "one.stk", options);
        for (const std::int64_t count : {2, 5, 12}) {
            const fs::path target = pack_all(options, count);
            const PackResult merged = merge_stk_parts(target, {.workers = 2});
            EXPECT_EQ(files_in(target), files_in(dir_ / "one.stk")) << pack_codec_name(codec) << " of " << count;
            EXPECT_EQ(merged.samples, one.samples);
            EXPECT_EQ(merged.bytes_in, one.bytes_in);
            EXPECT_EQ(merged.bytes_out, one.bytes_out);
            EXPECT_EQ(merged.shards, one.shards);
            EXPECT_EQ(merged.codecs, one.codecs);
            fs::remove_all(dir_ / "merged");
        }
        fs::remove_all(dir_ / "one.stk");
    }
}

TEST_F(StkParts, ListBadSamplesInOrder) {
    put(dir_ / "images/c0/bad.jpg", std::as_bytes(std::span("no image", 8)));
    put(dir_ / "images/c2/bad.jpg", std::as_bytes(std::span("no image", 8)));
    const PackOptions options{.shard_size = 20'000, .skip_bad = true};
    const PackResult one = pack(ImageFolder(dir_ / "images"), dir_ / "one.stk", options);
    const fs::path target = pack_all(options, 3);
    const PackResult merged = merge_stk_parts(target, {});
    EXPECT_EQ(files_in(target), files_in(dir_ / "one.stk"));
    ASSERT_EQ(merged.skipped.size(), 2);
    EXPECT_EQ(merged.skipped[0].key, one.skipped[0].key);
    EXPECT_EQ(merged.skipped[1].key, one.skipped[1].key);
}

TEST_F(StkParts, AnInterruptedMergingIsResumed) {
    const PackOptions options{.shard_size = 8'000};
    pack(ImageFolder(dir_ / "images"), dir_ / "one.stk", options);
    const fs::path target = pack_all(options, 4);
    const auto stop = [](const PackProgress& at) {
        if (std::string_view(at.phase) == "merge" && at.done == 9) {
            throw Stopped{};
        }
    };
    EXPECT_THROW(merge_stk_parts(target, {.progress = stop}), Stopped);
    EXPECT_FALSE(fs::exists(target / "stk.json"));
    std::int64_t first = -1;
    const PackResult merged =
        merge_stk_parts(target, {.progress = [&](const PackProgress& at) {
                            first = first < 0 && std::string_view(at.phase) == "merge" ? at.done : first;
                        }});
    EXPECT_GT(merged.resumed_samples, 0);
    EXPECT_EQ(first, merged.resumed_samples + 1);
    EXPECT_EQ(files_in(target), files_in(dir_ / "one.stk"));
}

TEST_F(StkParts, AMergedDataSetIsComplete) {
    const fs::path target = pack_all({}, 2);
    merge_stk_parts(target, {});
    EXPECT_TRUE(merge_stk_parts(target, {}).nothing_to_do);
    fs::remove_all(dir_ / "merged/x.part-0-of-2.stk");
    fs::remove_all(dir_ / "merged/x.part-1-of-2.stk");
    const PackResult again = merge_stk_parts(target, {});
    EXPECT_TRUE(again.nothing_to_do);
    EXPECT_EQ(again.samples, 12);
    // One packing of everything has nothing to do either.
    EXPECT_TRUE(pack(ImageFolder(dir_ / "images"), target, {}).nothing_to_do);
}

TEST_F(StkParts, MissingAndUnfinishedPartsAreNamed) {
    pack_all({.shard_size = 8'000}, 4);
    fs::remove_all(dir_ / "merged/x.part-1-of-4.stk");
    fs::remove(dir_ / "merged/x.part-3-of-4.stk/stk.json");
    EXPECT_THAT(refusal(), AllOf(HasSubstr("4 finished parts"), HasSubstr("no part 1/4, 3/4")));
    EXPECT_FALSE(fs::exists(dir_ / "merged/x.stk"));
    fs::remove_all(dir_ / "merged");
    fs::create_directories(dir_ / "merged");
    EXPECT_THAT(refusal(), HasSubstr("--part 0/8"));
}

TEST_F(StkParts, AFolderNamedLikeAPartIsNone) {
    for (const char* name : {"x.part-0-of-0.stk", "x.part-2-of-2.stk", "x.part--1-of-2.stk", "x.part-1-of.stk"}) {
        fs::create_directories(dir_ / "merged" / name);
    }
    EXPECT_THAT(refusal(), HasSubstr("--part 0/8"));
    fs::create_directories(dir_ / "merged/x.part-0-of-9000000000000000000.stk");
    EXPECT_THAT(refusal(), AllOf(HasSubstr("no part 0/9000000000000000000, "), HasSubstr(", ...;")));
}

TEST_F(StkParts, PartsOfOtherPackingsAreRefused) {
    fs::create_directories(dir_ / "merged");
    pack_part({}, {.index = 0, .count = 2});
    pack_part({.transcode = {.codec = PackCodec::raw}}, {.index = 1, .count = 2});
    EXPECT_THAT(refusal(), AllOf(HasSubstr("x.part-1-of-2.stk"), HasSubstr("--codec raw")));
    pack_part({}, {.index = 0, .count = 3});
    EXPECT_THAT(refusal(), HasSubstr("parts of 2 and of 3"));
    fs::remove_all(dir_ / "merged/x.part-0-of-3.stk");
    fs::remove_all(dir_ / "merged/x.part-1-of-2.stk");
    fs::copy(dir_ / "merged/x.part-0-of-2.stk", dir_ / "merged/x.part-1-of-2.stk", fs::copy_options::recursive);
    EXPECT_THAT(refusal(), HasSubstr("packed with --part 1/2"));
}

TEST_F(StkParts, DamagedPartsAreFound) {
    const fs::path target = pack_all({}, 2);
    const fs::path shard = dir_ / "merged/x.part-1-of-2.stk/shard-000000.stk";
    std::string bytes = read_text(shard);
    bytes[100] = static_cast<char>(bytes[100] ^ 1);  // in the first payload
    put(shard, std::as_bytes(std::span(bytes)));
    EXPECT_THAT(refusal(), HasSubstr("x.part-1-of-2.stk/shard-000000.stk"));
    EXPECT_FALSE(fs::exists(target / "stk.json"));
}

TEST_F(StkParts, APartIsAnotherPlan) {
    fs::create_directories(dir_ / "merged");
    pack_part({.shard_size = 20'000}, {.index = 0, .count = 2});
    try {
        pack_part({.shard_size = 8'000}, {.index = 0, .count = 2});
        FAIL();
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr("--shard-size"));
    }
    EXPECT_TRUE(pack_part({.shard_size = 20'000}, {.index = 0, .count = 2}).nothing_to_do);
}

TEST_F(StkParts, PartsThatAreNoneAreRefused) {
    const ImageFolder images(dir_ / "images");
    const auto refused = [&](const char* target, PackPart part) {
        EXPECT_THROW(pack(images, dir_ / target, {.part = part}), InvalidArgument) << part.index << "/" << part.count;
    };
    refused("x.stk", {.index = 2, .count = 2});
    refused("x.stk", {.index = -1, .count = 2});
    refused("x.stk", {.index = 0, .count = 0});
    refused("x.stk", {.index = 0, .count = 13});  // of 12 samples
    refused("x.tar", {.index = 0, .count = 2});
}

}  // namespace
}  // namespace stoker::stk_parts_test

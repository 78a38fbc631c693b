// Braces as bash expands them, patterns and folders on disk, and refused specifications.
#include "stoker/formats/shard_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempDir;

std::string refusal(const std::string& spec) {
    try {
        shard_names(spec);
    } catch (const InvalidArgument& error) {
        return error.what();
    }
    return "taken";
}

TEST(ShardNames, Braces) {
    EXPECT_THAT(expand_braces("x.tar"), ElementsAre("x.tar"));
    EXPECT_THAT(expand_braces("x-{8..11}.tar"), ElementsAre("x-8.tar", "x-9.tar", "x-10.tar", "x-11.tar"));
    EXPECT_THAT(expand_braces("x-{08..11}.tar"), ElementsAre("x-08.tar", "x-09.tar", "x-10.tar", "x-11.tar"));
    EXPECT_THAT(expand_braces("{8..0010}"), ElementsAre("0008", "0009", "0010"));
    EXPECT_THAT(expand_braces("{0..1}"), ElementsAre("0", "1"));
    EXPECT_THAT(expand_braces("{000000..000000}.tar"), ElementsAre("000000.tar"));
    EXPECT_THAT(expand_braces("{a,b,}x"), ElementsAre("ax", "bx", "x"));
    EXPECT_THAT(expand_braces("{a,b}-{0..2}.tar"),
                ElementsAre("a-0.tar", "a-1.tar", "a-2.tar", "b-0.tar", "b-1.tar", "b-2.tar"));
    EXPECT_THAT(expand_braces("https://h/{p,q}/{01..02}.tar?k=v"),
                ElementsAre("https://h/p/01.tar?k=v", "https://h/p/02.tar?k=v", "https://h/q/01.tar?k=v",
                            "https://h/q/02.tar?k=v"));
    EXPECT_EQ(first_of_braces("{a,b}-{07..12}.tar"), "a-07.tar");
    EXPECT_EQ(expand_braces("{000000..999999}.tar").size(), 1'000'000u);
    EXPECT_EQ(expand_braces("{0..999}{0..999}").back(), "999999");
}

TEST(ShardNames, RefusedBraces) {
    EXPECT_EQ(refusal("x-{9..3}.tar"), "[x-{9..3}.tar] expected ranges that count upwards, got {9..3}");
    EXPECT_THAT(refusal("{0..1000000}.tar"), HasSubstr("at most 1000000 names"));
    EXPECT_THAT(refusal("{0..999999999999999999}.tar"), HasSubstr("at most 1000000 names"));
    EXPECT_THAT(refusal("{0..99999}{0..99999}{0..99999}{0..99999}.tar"), HasSubstr("at most 1000000 names"));
    EXPECT_THAT(refusal("{0..9999999999999999999}.tar"), HasSubstr("at most 18 digits"));
    for (const char* spec : {"{a}.tar", "{}.tar", "{0..}.tar", "{..3}.tar", "{0..3..2}.tar", "{-3..3}.tar",
                             "{a..c}.tar", "{0...3}.tar", "x{0..3.tar", "x0..3}.tar", "{a,{b,c}}.tar", "}{.tar"}) {
        EXPECT_THAT(refusal(spec), HasSubstr(fmt::format("[{}] expected", spec)));
    }
}

TEST(ShardNames, PatternsAndFolders) {
    const TempDir dir;
    const auto at = [&](const std::string& name) { return (dir / name).string(); };
    fs::create_directories(dir / "more");
    fs::create_directories(dir / "folder.tar");
    for (const char* name : {"t-10.tar", "t-2.tar", "T-1.tar", ".t-0.tar", "t-x.txt", "more/t-3.tar", "v-1.tar"}) {
        write_file(dir / name, std::string_view("x"));
    }
    EXPECT_THAT(shard_names(at("t-*.tar")), ElementsAre(at("t-10.tar"), at("t-2.tar")));
    EXPECT_THAT(shard_names(at("t-?.tar")), ElementsAre(at("t-2.tar")));
    EXPECT_THAT(shard_names(at("[tT]-[12]*.tar")), ElementsAre(at("T-1.tar"), at("t-10.tar"), at("t-2.tar")));
    EXPECT_THAT(shard_names(at("*/t-*.tar")), ElementsAre(at("more/t-3.tar")));
    EXPECT_THAT(shard_names(at("{v,t}-*.tar")), ElementsAre(at("v-1.tar"), at("t-10.tar"), at("t-2.tar")));
    EXPECT_THAT(shard_names(dir.path().string()),
                ElementsAre(at("T-1.tar"), at("t-10.tar"), at("t-2.tar"), at("v-1.tar")));
    EXPECT_EQ(shard_names(dir.path().string() + "/").size(), 4u);
    EXPECT_THROW(shard_names(at("w-*.tar")), IoError);
    EXPECT_THAT(shard_names(at("absent.tar")), ElementsAre(at("absent.tar")));  // reported when it is opened

    // Existing paths are not expanded.
    for (const char* name : {"a{1..2}.tar", "b[1].tar"}) {
        write_file(dir / name, std::string_view("x"));
        EXPECT_THAT(shard_names(at(name)), ElementsAre(at(name)));
    }
    EXPECT_THAT(refusal("https://host/t-*.tar"), HasSubstr("cannot be listed"));
    EXPECT_THAT(shard_names("https://h/t.tar?x=[1]"), ElementsAre("https://h/t.tar?x=[1]"));
}

TEST(ShardNames, SpecsByTheirNames) {
    for (const char* spec :
         {"x.tar", "x-{0..9}.tar", "*.tar", "{a.tar,b.tar}", "x.tar.gz", "x.tgz", "x.tar.zst", "https://h/x.tar",
          "https://h/x-{0..3}.tar?token=a.b", "s3://b/x.tar", "gs://b/x?y.tar", "hf://datasets/a/b/x#-*.tar", ".tar"}) {
        EXPECT_TRUE(is_tar_spec(spec)) << spec;
    }
    for (const char* spec :
         {"", "x", "x.stk", "tar", "x.tar/y", "{a,b}", "x{0..}", "https://h/x?y.tar", "synth:digits", "x.zip"}) {
        EXPECT_FALSE(is_tar_spec(spec)) << spec;
    }
}

TEST(ShardNames, FoldersByWhatTheyHold) {
    const TempDir dir;
    EXPECT_FALSE(is_tar_folder(dir.path().string()));
    write_file(dir / ".hidden.tar", std::string_view("x"));
    write_file(dir / "notes.txt", std::string_view("x"));
    EXPECT_FALSE(is_tar_folder(dir.path().string()));
    write_file(dir / "a.tar", std::string_view("x"));
    EXPECT_TRUE(is_tar_folder(dir.path().string()));
    fs::create_directories(dir / "indices");
    EXPECT_TRUE(is_tar_folder(dir.path().string()));
    // An archive next to the folders that were unpacked from it is an image folder.
    fs::create_directories(dir / "cat");
    write_file(dir / "cat/1.jpg", std::string_view("x"));
    EXPECT_FALSE(is_tar_folder(dir.path().string()));
    EXPECT_FALSE(is_tar_folder((dir / "absent").string()));
}

TEST(MakeUnique, AddsThePosition) {
    std::vector<std::string> names = {"a", "b", "a", "a#2"};
    make_unique(names);
    EXPECT_EQ(names, (std::vector<std::string>{"a#0", "b", "a#2#2", "a#2"}));
    names = {"a", "b"};
    make_unique(names);
    EXPECT_EQ(names, (std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace stoker

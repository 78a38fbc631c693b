// Member names of keys: different keys give different names, readers split them at the right dot, and the key comes
// back.
#include "stoker/formats/webdataset/tar_member_name.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>

#include "stoker/formats/webdataset/sample_grouper.h"

namespace stoker {
namespace {

std::string member(const std::string& key, const std::string& extension, const std::string& usual) {
    const TarMemberName name = tar_member_name(key, extension, usual);
    return name.base + "." + name.extension;
}

TEST(TarMemberName, AsTheDocumentationHasThem) {
    EXPECT_EQ(usual_extension("cat/001.jpg", "jpg"), "jpg");
    EXPECT_EQ(usual_extension("cat/001.JPEG", "png"), "JPEG");
    EXPECT_EQ(usual_extension("cat/001.jpg", "npy"), "npy");
    EXPECT_EQ(usual_extension("cat/001.psd", "jpg"), "");
    EXPECT_EQ(usual_extension("cat/001.jpg", "dct"), "");
    EXPECT_EQ(usual_extension("17", "jpg"), "");
    EXPECT_EQ(member("cat/001.jpg", "jpg", "jpg"), "cat/001.jpg");
    EXPECT_EQ(member("cat/001.jpg", "png", "jpg"), "cat/001.jpg");  // keeps the name from its folder
    EXPECT_EQ(member("cat/001.png", "png", "jpg"), "cat/001%2Epng%.png");
    EXPECT_EQ(member("photo.2019.jpg", "jpg", "jpg"), "photo%2E2019.jpg");
    EXPECT_EQ(member("17", "jpg", ""), "17%.jpg");
    EXPECT_EQ(member("17", "npy", "npy"), "17.npy");
    EXPECT_EQ(member("17", "npy", "jpg"), "17%.npy");
    EXPECT_EQ(member("cat/001.jpg", "npy", "npy"), "cat/001%2Ejpg.npy");
    EXPECT_EQ(member("cat/001.jpg", "dct", "jpg"), "cat/001%2Ejpg%.dct");
    EXPECT_EQ(member("/../__x__/.jpg", "jpg", "jpg"), "%2F%2E%2E/__x__/%2Ejpg%.jpg");
    EXPECT_EQ(member("__x__/1.jpg", "jpg", "jpg"), "%5F_x__/1.jpg");
    EXPECT_EQ(member("100%.jpg", "jpg", "jpg"), "100%25.jpg");
    EXPECT_EQ(member("", "npy", "npy"), "%.npy");
}

TEST(TarMemberName, OtherProgramsNamesStayWhatTheyAre) {
    for (const char* base : {"a%2e", "%41", "50%off", "%2", "%%", "x%2F", "a.d/b%2Eb%2", "%GG"}) {
        EXPECT_EQ(tar_member_key(base, "jpg"), std::string(base) + ".jpg");
        EXPECT_EQ(tar_member_key(base, "npy"), base);
    }
    EXPECT_EQ(tar_member_key("a", "left.jpg"), "a.left.jpg");
    EXPECT_EQ(tar_member_key("a", "JPG"), "a.JPG");
    EXPECT_EQ(tar_member_key("a", "NPY"), "a");
}

TEST(TarMemberName, EveryKeyComesBackAndNoTwoShareAName) {
    std::mt19937 random(7);
    const std::array<std::string, 18> pieces = {"a",    "b",  ".",    "/",    "..",   "%",
                                                "%2E",  "_",  "__",   ".jpg", ".png", "é",
                                                "\xff", "\n", ".JPG", "E",    "2",    std::string(1, '\0')};
    const std::array<std::string, 4> stored = {"jpg", "png", "npy", "dct"};
    for (const std::string usual : {"", "jpg", "png", "npy", "JPG"}) {
        std::map<std::string, std::string> keys;  // by the sample's name in Python's readers
        for (int i = 0; i < 20'000; ++i) {
            std::string key;
            for (auto n = random() % 6; n > 0; --n) {
                key += pieces[random() % pieces.size()];
            }
            const std::string& extension = stored[std::hash<std::string>()(key) % stored.size()];
            const std::string name = member(key, extension, usual);
            const TarMemberNameParts parts = split_tar_member_name(name);
            const TarMemberName made = tar_member_name(key, extension, usual);
            ASSERT_EQ(parts.key, made.base) << name;
            ASSERT_EQ(parts.extension, made.extension) << name;
            ASSERT_EQ(tar_member_key(parts.key, parts.extension), key) << name;
            ASSERT_TRUE(is_utf8(name) && name.find('\0') == std::string::npos && name.front() != '/') << name;
            ASSERT_EQ(("/" + name).find("/../"), std::string::npos) << name;
            ASSERT_EQ(keys.emplace(made.base, key).first->second, key) << made.base;
        }
        EXPECT_GT(keys.size(), 5'000U);
    }
}

TEST(TarMemberName, Utf8IsPythons) {
    for (const char* good : {"", "a", "é", "日本", "\xf4\x8f\xbf\xbf", "\xee\x80\x80"}) {
        EXPECT_TRUE(is_utf8(good)) << good;
    }
    for (const char* bad :
         {"\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff", "a\xe6\x97"}) {
        EXPECT_FALSE(is_utf8(bad));
    }
}

}  // namespace
}  // namespace stoker

// Names of the hub, as HfFileSystem.resolve_path of huggingface_hub reads them, and the places of its token.
#include "stoker/io/remote/hub_name.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <map>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/io/remote/gcs_settings.h"
#include "stoker/io/remote/hub_settings.h"
#include "stoker/io/remote/url.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TempDir;

Variables variables(std::map<std::string, std::string> set) {
    return [set = std::move(set)](const std::string& name) {
        const auto found = set.find(name);
        return found == set.end() ? "" : found->second;
    };
}

TEST(HubNameTest, RepositoriesAndPaths) {
    const HubName plain = parse_hub_name("hf://datasets/org/name/a/b?c#d%20@e.tar");
    EXPECT_THAT(plain.places,
                ElementsAre(HubPlace{"org/name", "a/b?c#d%20@e.tar"}, HubPlace{"org", "name/a/b?c#d%20@e.tar"}));
    EXPECT_EQ(plain.revision, "main");
    EXPECT_THAT(parse_hub_name("hf://datasets/org/name/").places,
                ElementsAre(HubPlace{"org/name", ""}, HubPlace{"org", "name"}));
    EXPECT_THAT(parse_hub_name("hf://datasets/name").places, ElementsAre(HubPlace{"name", ""}));
    EXPECT_THAT(parse_hub_name("hf://datasets/name@v1/a/b").places, ElementsAre(HubPlace{"name", "a/b"}));
    EXPECT_THAT(parse_hub_name("hf://datasets/org/name@v1").places, ElementsAre(HubPlace{"org/name", ""}));
}

TEST(HubNameTest, Revisions) {
    for (const auto& [written, revision] : std::map<std::string, std::string>{{"v1", "v1"},
                                                                              {"refs/convert/parquet", ""},
                                                                              {"refs%2Fconvert%2Fparquet", ""},
                                                                              {"~parquet", ""},
                                                                              {"refs/pr/12", "refs/pr/12"},
                                                                              {"a%2fb", "a/b"}}) {
        const HubName name = parse_hub_name("hf://datasets/org/name@" + written + "/x/y");
        EXPECT_EQ(name.revision, revision.empty() ? "refs/convert/parquet" : revision) << written;
        EXPECT_THAT(name.places, ElementsAre(HubPlace{"org/name", "x/y"})) << written;
        EXPECT_EQ(hub_file_name(name, name.places[0], "x/y"), "hf://datasets/org/name@" + written + "/x/y");
    }
    EXPECT_EQ(parse_hub_name("hf://datasets/a/b@refs/heads/x").revision, "refs");  // only two kinds have slashes
}

TEST(HubNameTest, Urls) {
    const HubPlace place{"org/name", "a b/c?#+\xc3\xa9.tar"};
    EXPECT_EQ(hub_file_url("https://h", place, "refs/convert/parquet"),
              "https://h/datasets/org/name/resolve/refs%2Fconvert%2Fparquet/a%20b/c%3F%23%2B%C3%A9.tar");
    EXPECT_EQ(hub_tree_url("https://h", {"org/name", "a/b"}, "main", true),
              "https://h/api/datasets/org/name/tree/main/a%2Fb?recursive=true");
    EXPECT_EQ(hub_tree_url("https://h", {"name", ""}, "main", false),
              "https://h/api/datasets/name/tree/main?recursive=false");
    EXPECT_EQ(hub_file_name(parse_hub_name("hf://datasets/name"), {"name", ""}, "a/b"),
              "hf://datasets/name@main/a/b");  // not b in name/a
}

TEST(HubNameTest, OthersAreRefused) {
    for (const char* bad : {"hf://datasets/", "hf://datasets//x/y", "hf://datasets/a/b/../c", "hf://datasets/a/b//c",
                            "hf://datasets/../api/x", "hf://datasets/a b/c/d", "hf://datasets/a/b@/c",
                            "hf://datasets/a/b@../c", "hf://datasets/a/b@~/c", "hf://datasets/a/b@%2e%2e/c",
                            "hf://user:word@datasets/a/b/c", "hf://datasets/a/b@x%2F..%2F..%2Fy/c"}) {
        EXPECT_THROW(parse_hub_name(bad), InvalidArgument) << bad;
    }
    for (const char* bad : {"hf://models/a/b/c", "hf://spaces/a/b/c", "hf://a/b/c", "hf://datasets", "hf://"}) {
        EXPECT_THROW(parse_hub_name(bad), Unsupported) << bad;
    }
}

TEST(HubSettingsTest, TokensInTheOrderOfTheHubsLibrary) {
    const TempDir home;
    std::filesystem::create_directories(home / ".cache/huggingface");
    std::filesystem::create_directories(home / "other");
    write_file(home / ".cache/huggingface/token", std::string_view("usual\n"));
    write_file(home / "other/token", std::string_view("of-home"));
    write_file(home / "file", std::string_view(" of-path\n"));
    std::map<std::string, std::string> set = {{"HOME", home.path().string()}};
    const auto found = [&] { return find_hub_settings(variables(set), "hf://datasets/a/b"); };
    EXPECT_EQ(found().token, "usual");
    EXPECT_EQ(found().endpoint, "https://huggingface.co");
    set["HF_HOME"] = "~/other";
    EXPECT_EQ(found().token, "of-home");
    set["HF_TOKEN_PATH"] = (home / "file").string();
    EXPECT_EQ(found().token, "of-path");
    set["HUGGING_FACE_HUB_TOKEN"] = "second";
    EXPECT_EQ(found().token, "second");
    set["HF_TOKEN"] = "first";
    set["HF_ENDPOINT"] = "HTTPS://user:word@mirror/base//";
    EXPECT_EQ(found().token, "first");
    EXPECT_EQ(found().endpoint, "https://mirror/base");
    set["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "ON";
    EXPECT_EQ(found().token, "");
    set["HF_ENDPOINT"] = "ftp://mirror";
    EXPECT_THROW(found(), InvalidArgument);
    set["HF_HUB_OFFLINE"] = "1";
    EXPECT_THROW(found(), Unsupported);
    EXPECT_EQ(find_hub_settings(variables({}), "").token, "");
}

TEST(HubSettingsTest, ATokenCannotAddHeaders) {
    try {
        find_hub_settings(variables({{"HF_TOKEN", "SECRET\r\nx: y"}}), "hf://datasets/a/b");
        FAIL();
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), Not(HasSubstr("SECRET")));
    }
}

TEST(GcsSettingsTest, KeysThenTokenThenBotoFile) {
    const TempDir home;
    write_file(home / ".boto", std::string_view("[Credentials]\ngs_access_key_id = BK\ngs_secret_access_key = BS\n"));
    std::map<std::string, std::string> set = {{"HOME", home.path().string()}};
    const auto found = [&] { return find_gcs_settings(variables(set)); };
    EXPECT_EQ(found().credentials->access_key, "BK");
    EXPECT_EQ(found().endpoint, "https://storage.googleapis.com");
    EXPECT_EQ(found().region, "auto");
    set["GOOGLE_OAUTH_ACCESS_TOKEN"] = "terraform";
    EXPECT_FALSE(found().credentials);
    EXPECT_EQ(found().bearer, "terraform");
    set["GCS_OAUTH_TOKEN"] = "htslib";
    EXPECT_EQ(found().bearer, "htslib");
    set["GS_ACCESS_KEY_ID"] = "EK";
    EXPECT_THROW(found(), InvalidArgument);
    set["GS_SECRET_ACCESS_KEY"] = "ES";
    EXPECT_EQ(found().credentials->secret_key, "ES");
    EXPECT_EQ(found().bearer, "");
    set["GS_NO_SIGN_REQUEST"] = "YES";
    set["STORAGE_EMULATOR_HOST"] = "localhost:9";
    EXPECT_FALSE(found().credentials);
    EXPECT_EQ(found().endpoint, "http://localhost:9");
    set["STORAGE_EMULATOR_HOST"] = "https://h/";
    EXPECT_EQ(found().endpoint, "https://h/");
}

TEST(HubNameTest, TokensAreNotSentInClearTextToOtherMachines) {
    const auto hub = [](const std::string& endpoint) {
        return find_hub_settings(variables({{"HF_TOKEN", "secret"}, {"HF_ENDPOINT", endpoint}}), "hf://datasets/a/b");
    };
    EXPECT_EQ(hub("https://mirror.example").token, "secret");
    EXPECT_EQ(hub("http://127.0.0.1:9000").token, "secret");
    EXPECT_EQ(hub("http://localhost").token, "secret");
    EXPECT_EQ(hub("http://mirror.example:80").token, "");
    EXPECT_EQ(hub("http://127.evil.example").token, "");
    const auto storage = [](const std::string& emulator) {
        return find_gcs_settings(
            variables({{"GCS_OAUTH_TOKEN", "secret"}, {"STORAGE_EMULATOR_HOST", emulator}, {"HOME", "/none"}}));
    };
    EXPECT_EQ(storage("").bearer, "secret");
    EXPECT_EQ(storage("localhost:9000").bearer, "secret");
    EXPECT_EQ(storage("emulator:9000").bearer, "");
}

TEST(HubNameTest, ARedirectMayBeAnyText) {
    EXPECT_FALSE(same_origin("https:///", "https://huggingface.co"));
    EXPECT_FALSE(same_origin("next page", "https://huggingface.co"));
    EXPECT_TRUE(same_origin("https://HuggingFace.co:443/x", "https://huggingface.co"));
}

}  // namespace
}  // namespace stoker

// Suggestions for mistyped names and paths.
#include "stoker/base/suggest.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace stoker::suggest_test {
namespace {

TEST(Suggest, OffersOnlyWhatIsNear) {
    const std::vector<std::string> names = {"lr", "momentum", "eps", "nesterov"};
    EXPECT_EQ(nearest_name("momentun", names), "momentum");
    EXPECT_EQ(nearest_name("rl", names), "lr");  // neighbours swapped: one edit
    EXPECT_EQ(nearest_name("mumentmu", names), "momentum");
    EXPECT_EQ(nearest_name("mumentmo", names), "");  // three edits of eight characters
    EXPECT_EQ(nearest_name("epsilon", names), "");
    EXPECT_EQ(nearest_name("dropout", names), "");
    EXPECT_EQ(nearest_name("", names), "");
    EXPECT_EQ(nearest_name(std::string(1000, 'm'), names), "");
}

TEST(Suggest, PathsAreCorrectedAtTheFirstMissingPart) {
    const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "stoker_suggest_test";
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder / "data/train/cats");
    std::filesystem::create_directories(folder / "data/val");
    std::ofstream(folder / "data/.hidden") << "x";
    const auto near = [&](const char* path) {
        const std::string found = nearest_path(folder / path);
        return found.empty() ? found : std::filesystem::path(found).lexically_relative(folder).string();
    };
    EXPECT_EQ(near("data/trian"), "data/train");
    EXPECT_EQ(near("data/Train/cats"), "data/train/cats");
    EXPECT_EQ(near("data/trian/dogs"), "data/train");
    EXPECT_EQ(near("dtaa/train/cats"), "data/train/cats");
    EXPECT_EQ(near("data/hidden"), "");
    EXPECT_EQ(near("data/photos"), "");
    EXPECT_EQ(missing_path_hint(folder / "data/photos", "do this"),
              (folder / "data").string() + " has train, val; do this");
    EXPECT_EQ(missing_path_hint(folder / "data/vla", "do this"),
              "did you mean \"" + (folder / "data/val").string() + "\"?");
    EXPECT_EQ(missing_path_hint(folder / "data/val/x", "do this"), "do this");  // nothing is there
    EXPECT_EQ(missing_path_hint("~/photos", "do this"), "~ is not replaced here: write the whole path");
    EXPECT_EQ(missing_path_hint("", "do this").empty(), false);
    std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace stoker::suggest_test

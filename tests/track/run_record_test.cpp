// Complete and damaged run folders: whatever a file contains, the others are read and nothing is thrown.
#include "stoker/track/run_record.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "support/temp_dir.h"
#include "track/support.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::epoch_line;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::metrics_text;
using testing::step_line;
using testing::TempDir;

constexpr const char* kRecipe = "[data]\ntrain = \"synth:digits\"\n[train]\nepochs = 2\n";

std::string account(std::int64_t steps, bool interrupted) {
    return fmt::format(R"({{"run": "r", "steps": {}, "interrupted": {}, "epochs": [], "device": "cpu"}})", steps,
                       interrupted);
}

class RunRecordTest : public ::testing::Test {
  protected:
    RunRecordTest() { fs::create_directory(run_); }

    void write(const char* name, const std::string& text) { write_file(run_ / name, text); }

    void write_all() {
        write("recipe.toml", kRecipe);
        write("metrics.jsonl", metrics_text(2, 3));
        write("account.json", account(6, false));
    }

    TempDir dir_;
    fs::path run_ = dir_ / "run";
};

TEST_F(RunRecordTest, AFinishedRun) {
    write_all();
    const RunRecord run = read_run(run_);
    EXPECT_TRUE(run.finished);
    EXPECT_FALSE(run.interrupted);
    EXPECT_THAT(run.problems, IsEmpty());
    EXPECT_EQ(run.key("model.name"), "mlp");  // the default
    EXPECT_EQ(run.key("data.train"), "synth:digits");
    EXPECT_EQ(run.key("nothing"), "");
    EXPECT_EQ(run.planned, 2);
    EXPECT_EQ(run.device, "cpu");
    EXPECT_EQ(run.seconds(), 4);
    EXPECT_EQ(run.images_per_second(), 100);
    EXPECT_GT(run.modified_ns, 1'500'000'000'000'000'000);
}

TEST_F(RunRecordTest, ARunThatAnotherFolderBeganIsFinishedAfterItsLastEpoch) {
    write("recipe.toml", kRecipe);
    write("metrics.jsonl", step_line(6, 2) + epoch_line(2, 6));
    write("account.json", account(6, false));
    const RunRecord run = read_run(run_);
    ASSERT_EQ(run.metrics.epochs.size(), 1U);
    EXPECT_EQ(run.metrics.last_epoch(), 2);
    EXPECT_TRUE(run.finished);
}

TEST_F(RunRecordTest, AStopIsOfThePastOnceTheRunGoesOn) {
    write_all();
    write("metrics.jsonl", metrics_text(1, 3) + testing::step_line(4, 2));
    write("account.json", account(4, true));
    EXPECT_TRUE(read_run(run_).interrupted);
    write("metrics.jsonl", metrics_text(1, 3) + testing::step_line(4, 2) + testing::step_line(5, 2));
    EXPECT_FALSE(read_run(run_).interrupted);
    write("account.json", account(5, false));  // of a run that was planned shorter
    EXPECT_FALSE(read_run(run_).finished);
}

TEST_F(RunRecordTest, AFailureTellsWhy) {
    write_all();
    EXPECT_EQ(read_run(run_).error, "");
    write("failed.json", R"({"error": "nan in step 6"})");
    EXPECT_EQ(read_run(run_).error, "nan in step 6");
    EXPECT_FALSE(read_run(run_).finished);
    write("failed.json", R"({"error": 3})");
    EXPECT_THAT(read_run(run_).problems, ElementsAre(HasSubstr("failed.json")));
}

TEST_F(RunRecordTest, WhatIsMissingIsSaid) {
    EXPECT_FALSE(is_run_folder(run_));
    EXPECT_THAT(read_run(run_).problems, ElementsAre("no recipe.toml", "no metrics.jsonl"));
    EXPECT_EQ(read_run(run_).modified_ns, std::nullopt);
    write_all();
    fs::remove(run_ / "account.json");
    EXPECT_THAT(read_run(run_).problems, IsEmpty());
    EXPECT_FALSE(read_run(run_).finished);
    fs::remove(run_ / "recipe.toml");
    EXPECT_THAT(read_run(run_).problems, ElementsAre("no recipe.toml"));
    EXPECT_EQ(read_run(run_).metrics.epochs.size(), 2U);
    fs::create_directory(run_ / "recipe.toml");
    EXPECT_THAT(read_run(run_).problems, ElementsAre(HasSubstr("recipe.toml")));
}

TEST_F(RunRecordTest, FilesCutAtEveryByteAreNoCrash) {
    write_all();
    for (const char* name : {"recipe.toml", "metrics.jsonl", "account.json"}) {
        const std::string whole = read_text(run_ / name);
        for (std::size_t size = 0; size < whole.size(); ++size) {
            write(name, whole.substr(0, size));
            const RunRecord run = read_run(run_);
            ASSERT_LE(run.problems.size(), 1U) << name << " " << size;
            for (const std::string& problem : run.problems) {
                ASSERT_THAT(problem, HasSubstr(name));
                ASSERT_EQ(problem.find('\n'), std::string::npos) << problem;
            }
        }
        write(name, whole);
    }
}

TEST_F(RunRecordTest, AccountsOfOthersAreRefused) {
    write_all();
    for (const char* text : {"[]", "{}", "{\"device\": 1}", R"({"device": "cpu", "steps": "x", "interrupted": 1})"}) {
        write("account.json", text);
        EXPECT_THAT(read_run(run_).problems, ElementsAre("account.json was not written by Stoker")) << text;
    }
}

TEST_F(RunRecordTest, RunsAreFoundAtAnyDepthAndNotThroughLinks) {
    for (const char* name : {"b", "a/deep/er", "a/other", "c"}) {
        fs::create_directories(dir_ / "runs" / name);
        write_file(dir_ / "runs" / name / "recipe.toml", std::string_view(kRecipe));
    }
    fs::create_directories(dir_ / "runs/b/checkpoints/inner");
    write_file(dir_ / "runs/b/checkpoints/inner/recipe.toml", std::string_view(kRecipe));
    fs::create_directory_symlink(dir_ / "runs", dir_ / "runs/loop");
    const fs::path root = dir_ / "runs";
    EXPECT_THAT(find_runs(root).paths, ElementsAre(root / "a/deep/er", root / "a/other", root / "b", root / "c"));
    EXPECT_THAT(find_runs(root / "b").paths, ElementsAre(root / "b"));
    EXPECT_THROW(find_runs(dir_ / "none"), IoError);
    EXPECT_THROW(find_runs(root / "b/recipe.toml"), IoError);
}

// Folders in folders until the path is longer than any that can be opened, also by root.
void make_too_deep(const fs::path& folder) {
    fs::create_directories(folder);
    int at = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
    for (int depth = 0; depth < 20; ++depth) {
        const std::string name(250, 'd');
        ASSERT_EQ(::mkdirat(at, name.c_str(), 0755), 0);
        const int below = ::openat(at, name.c_str(), O_RDONLY | O_DIRECTORY);
        ::close(at);
        at = below;
    }
    ::close(at);
}

TEST_F(RunRecordTest, AFolderThatCannotBeReadDoesNotHideTheOthers) {
    const fs::path root = dir_ / "runs";
    make_too_deep(root / "deep");
    for (const char* name : {"a", "m", "z"}) {
        fs::create_directories(root / name);
        write_file(root / name / "recipe.toml", std::string_view(kRecipe));
    }
    const FoundRuns found = find_runs(root);
    EXPECT_THAT(found.paths, ElementsAre(root / "a", root / "m", root / "z"));
    ASSERT_EQ(found.unreadable.size(), 1U);
    EXPECT_THAT(found.unreadable[0].folder.string(), HasSubstr("/deep/ddd"));
}

TEST(RecipeKeysTest, DefaultsWrittenOutAreNoDifference) {
    const RecipeKeys plain = recipe_keys(kRecipe, "a");
    const RecipeKeys written = recipe_keys(std::string(kRecipe) + "[optimizer]\nname = \"adam\"\n", "b");
    EXPECT_THAT(differing_keys({plain, written}), IsEmpty());
    const RecipeKeys other = recipe_keys(std::string(kRecipe) + "[optimizer]\nlr = 0.5\n", "b");
    const std::vector<DifferingKey> differing = differing_keys({plain, other});
    ASSERT_EQ(differing.size(), 1U);
    EXPECT_EQ(differing[0].key, "optimizer.lr");
    EXPECT_THAT(differing[0].values, ElementsAre("0.001", "0.5"));
    EXPECT_THAT(differing_keys({plain, {}}), IsEmpty());
    EXPECT_EQ(differing_keys({{{"a", ""}}, {{"b", ""}}}).size(), 2U);  // an empty value is not a missing one
}

TEST(RecipeKeysTest, RecipesOfOtherVersionsAreShownAsTheyAre) {
    const RecipeKeys keys = recipe_keys("[data]\ntrain = \"d\"\nops = [{op = \"flip\", p = 0.5}]\nnew = true\n", "a");
    EXPECT_EQ(keys.size(), 3U);
    EXPECT_EQ(keys.at("data.new"), "true");
    EXPECT_EQ(keys.at("data.ops"), "[{op = flip, p = 0.5}]");
    EXPECT_THROW(recipe_keys("= no TOML", "a"), InvalidArgument);
}

}  // namespace
}  // namespace stoker

// What a run folder keeps, what it takes away, and that a run that got nowhere leaves none.
#include <gtest/gtest.h>

#include <set>

#include "stoker/base/error.h"
#include "train/support.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using testing::every;
using testing::live;
using testing::small_data;
using testing::SquareSource;
using testing::TempDir;

TEST(RunFolder, KeepsTheNewestThreeCheckpoints) {
    const TempDir folder;
    live(every(2, false), folder / "run");
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder / "run" / "checkpoints")) {
        names.insert(entry.path().filename().string());
    }
    EXPECT_EQ(names, (std::set<std::string>{"18", "20", "21"}));
}

TEST(RunFolder, LeftoversOfADeathAreTakenAway) {
    const TempDir folder;
    const fs::path checkpoints = folder / "run" / "checkpoints";
    live(every(1, true), folder / "run", 3);
    fs::create_directory(checkpoints / ".writing-9");
    std::ofstream(checkpoints / ".writing-9" / "state.json") << "half";
    fs::create_directory(checkpoints / "14");  // without state.json it is no checkpoint, though the newest
    std::ofstream(checkpoints / "14" / "model.safetensors") << "half";
    EXPECT_EQ(live(every(1, true), folder / "run").result.resumed_from_step, 3);
    EXPECT_FALSE(fs::exists(checkpoints / ".writing-9"));
    EXPECT_TRUE(fs::exists(checkpoints / "14" / "state.json"));
}

TEST(RunFolder, FailedRunWithoutACheckpointLeavesNone) {
    const TempDir folder;
    const auto bad = std::make_shared<SquareSource>(100);
    bad->before_read = [](std::int64_t index) {
        if (index == 77) {
            throw DataError({}, {.where = "source", .expected = "pixels", .got = "rubbish"});
        }
    };
    fs::create_directory(folder / "made");
    for (const char* name : {"run", "made"}) {
        Trainer trainer(every(1, true), {bad, nullptr});
        try {
            trainer.fit({.out = folder / name});
            ADD_FAILURE() << "a bad sample went unseen";
        } catch (const DataError& error) {
            EXPECT_EQ(error.place().index, 77);
        }
    }
    EXPECT_FALSE(fs::exists(folder / "run"));
    EXPECT_TRUE(fs::exists(folder / "made") && fs::is_empty(folder / "made")) << "a folder of the user's stays, empty";
}

TEST(RunFolder, FailedRunWithACheckpointKeepsIt) {
    const TempDir folder;
    auto reads = std::make_shared<std::atomic<int>>(0);
    const auto bad = std::make_shared<SquareSource>(100);
    bad->before_read = [reads](std::int64_t) {
        if (++*reads > 150) {
            throw DataError({}, {.where = "source", .expected = "pixels", .got = "rubbish"});
        }
    };
    Trainer trainer(every(1, false), {bad, nullptr});
    EXPECT_THROW(trainer.fit({.out = folder / "run"}), DataError);
    EXPECT_TRUE(find_checkpoint(folder / "run"));
}

TEST(RunFolder, WithoutOneNothingIsWritten) {
    const TempDir folder;
    const fs::path before = fs::current_path();
    fs::current_path(folder.path());
    Trainer trainer(every(1, true), small_data());
    EXPECT_EQ(trainer.fit().epochs.size(), 3u);
    fs::current_path(before);
    EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace stoker

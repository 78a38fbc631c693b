// A run that stops and goes on is the run that never stopped: the same losses, weights and records bit
// for bit, from whatever step. And what a run folder refuses, keeps and takes away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "stoker/base/error.h"
#include "train/support.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::figures;
using testing::kStepsAnEpoch;
using testing::metrics_of;
using testing::same_weights;
using testing::small_data;
using testing::small_recipe;
using testing::SquareSource;
using testing::TempDir;
using testing::text_of;
using testing::weights_of;

constexpr std::int64_t kEpochs = 3;
constexpr std::int64_t kSteps = kEpochs * kStepsAnEpoch;

struct Outcome {
    TrainResult result;
    std::vector<NamedTensor> weights;
};

// One process's life: from the newest checkpoint, if any, to the end, or to `stop_at` steps of its own.
Outcome live(const Recipe& recipe, const fs::path& run, std::int64_t stop_at = 0) {
    Trainer trainer(recipe, small_data());
    std::atomic<int> interrupt = 0;
    std::int64_t steps = 0;
    FitOptions options{.out = run, .resume = "auto", .interrupt = &interrupt};
    options.on_step = [&](const Progress&) { interrupt = ++steps == stop_at ? 15 : 0; };
    TrainResult result = trainer.fit(options);
    return {std::move(result), weights_of(trainer)};
}

// The same, but it dies of an exception in the middle: nothing is written after.
void die(const Recipe& recipe, const fs::path& run, std::int64_t at_step) {
    Trainer trainer(recipe, small_data());
    std::int64_t steps = 0;
    FitOptions options{.out = run, .resume = "auto"};
    options.on_step = [&](const Progress&) {
        if (++steps == at_step) {
            throw std::runtime_error("killed");
        }
    };
    EXPECT_THROW(trainer.fit(options), std::runtime_error);
}

Recipe every(std::int64_t count, bool epochs, const std::string& optimizer = "adam") {
    Recipe recipe = small_recipe(kEpochs);
    recipe.optimizer.name = optimizer;
    recipe.optimizer.momentum = optimizer == "sgd" ? 0.9 : 0;
    recipe.schedule.name = "one_cycle";
    recipe.train.checkpoint_every = {.count = count, .epochs = epochs};
    return recipe;
}

void expect_same(const Outcome& whole, const fs::path& whole_run, const Outcome& other, const fs::path& other_run,
                 const std::string& what) {
    EXPECT_EQ(figures(other.result.epochs), figures(whole.result.epochs)) << what;
    EXPECT_EQ(other.result.steps, whole.result.steps) << what;
    EXPECT_TRUE(same_weights(other.weights, whole.weights)) << what;
    EXPECT_EQ(metrics_of(other_run), metrics_of(whole_run)) << what;
}

TEST(Resume, AfterAnInterruptAtAnyStepEqualsTheUninterruptedRun) {
    for (const char* optimizer : {"adam", "sgd"}) {
        const TempDir folder;
        const Recipe recipe = every(1, true, optimizer);
        const Outcome whole = live(recipe, folder / "whole");
        EXPECT_FALSE(whole.result.resumed_from_step);
        EXPECT_EQ(whole.result.steps, kSteps);
        // An epoch's first, middle and last step, and the run's very last one.
        for (const std::int64_t stop : {1, 3, 6, 7, 8, 14, 15, 20, 21}) {
            const fs::path run = folder / fmt::format("run{}", stop);
            const Outcome first = live(recipe, run, stop);
            EXPECT_TRUE(first.result.interrupted);
            EXPECT_EQ(first.result.steps, stop);
            const Outcome rest = live(recipe, run);
            EXPECT_EQ(rest.result.resumed_from_step, stop);
            EXPECT_FALSE(rest.result.interrupted);
            expect_same(whole, folder / "whole", rest, run, fmt::format("{} stopped at {}", optimizer, stop));
        }
    }
}

TEST(Resume, AfterADeathGoesBackToTheNewestCheckpoint) {
    const TempDir folder;
    const Outcome whole = live(every(1, true), folder / "whole");
    struct Case {
        std::int64_t count;
        bool epochs;
        std::int64_t death;
        std::int64_t from;
    };
    for (const Case& c : {Case{5, false, 7, 5}, Case{5, false, 5, 0}, Case{5, false, 19, 15}, Case{7, false, 8, 7},
                          Case{7, false, 16, 14}, Case{1, false, 13, 12}, Case{1, true, 12, 7}, Case{1, true, 15, 14},
                          Case{2, true, 13, 0}, Case{2, true, 20, 14}}) {
        const std::string what = fmt::format("every {} {}, dead at {}", c.count, c.epochs ? "epochs" : "steps", c.death);
        const Recipe recipe = every(c.count, c.epochs);
        const fs::path run = folder / what;
        die(recipe, run, c.death);
        EXPECT_EQ(fs::exists(run), c.from > 0) << what;
        const Outcome rest = live(recipe, run);
        EXPECT_EQ(rest.result.resumed_from_step.value_or(0), c.from) << what;
        expect_same(whole, folder / "whole", rest, run, what);
    }
}

TEST(Resume, ThroughManyDeaths) {
    const TempDir folder;
    const Recipe recipe = every(2, false);
    const Outcome whole = live(recipe, folder / "whole");
    for (int i = 0; i < 6; ++i) {
        die(recipe, folder / "run", 4);  // two new checkpoints, then a step and a half that are lost
    }
    const Outcome rest = live(recipe, folder / "run");
    EXPECT_GT(rest.result.resumed_from_step.value_or(0), 10);
    expect_same(whole, folder / "whole", rest, folder / "run", "many deaths");
}

TEST(Resume, WithOtherWorkersIsTheSameRun) {
    const TempDir folder;
    Recipe recipe = every(1, true);
    const Outcome whole = live(recipe, folder / "whole");
    live(recipe, folder / "run", 10);
    recipe.data.workers = 3;
    recipe.data.cache = "ram";
    expect_same(whole, folder / "whole", live(recipe, folder / "run"), folder / "run", "3 workers");
}

TEST(Resume, FinishedRunGivesItsDocumentAgain) {
    const TempDir folder;
    for (const auto& recipe : {every(1, true), every(7, false)}) {
        const fs::path run = folder / (recipe.train.checkpoint_every.epochs ? "epochs" : "steps");
        const Outcome whole = live(recipe, run);
        const std::string metrics = metrics_of(run);
        const Outcome again = live(recipe, run);
        EXPECT_EQ(again.result.resumed_from_step, kSteps);
        EXPECT_EQ(figures(again.result.epochs), figures(whole.result.epochs));
        EXPECT_EQ(again.result.epochs[1].seconds, whole.result.epochs[1].seconds);
        EXPECT_TRUE(same_weights(again.weights, whole.weights));
        EXPECT_EQ(metrics_of(run), metrics);
        EXPECT_GE(again.result.account.total(), whole.result.account.total() / 2);
    }
}

TEST(Resume, AutoWithNothingThereStartsAfresh) {
    const TempDir folder;
    EXPECT_FALSE(live(every(1, true), folder / "a" / "b").result.resumed_from_step);
    fs::create_directory(folder / "empty");
    EXPECT_FALSE(live(every(1, true), folder / "empty").result.resumed_from_step);
}

TEST(Resume, MoreEpochsGoOnWhereARunEnded) {
    const TempDir folder;
    Recipe recipe = every(1, true);
    recipe.schedule.name = "constant";
    Recipe shorter = recipe;
    shorter.train.epochs = 2;
    const Outcome whole = live(recipe, folder / "whole");
    live(shorter, folder / "run");
    expect_same(whole, folder / "whole", live(recipe, folder / "run"), folder / "run", "2 epochs, then 3");
    EXPECT_EQ(live(shorter, folder / "run").result.epochs.size(), 3u) << "fewer epochs undo nothing";
}

TEST(Resume, OtherBatchSizeOrSeedIsRefusedAndChangesNothing) {
    const TempDir folder;
    const fs::path run = folder / "run";
    live(every(1, true), run, 10);
    const std::string recipe_toml = text_of(run / "recipe.toml");
    const std::string metrics = text_of(run / "metrics.jsonl");
    Recipe other = every(1, true);
    other.data.batch_size = 20;
    EXPECT_THROW(live(other, run), InvalidArgument);
    other = every(1, true);
    other.seed = 6;
    EXPECT_THROW(live(other, run), InvalidArgument);
    other = every(1, true);
    other.model.hidden = {8, 8};
    EXPECT_THROW(live(other, run), InvalidArgument);
    EXPECT_THROW(live(every(1, true, "sgd"), run), InvalidArgument);
    EXPECT_EQ(text_of(run / "recipe.toml"), recipe_toml);
    EXPECT_EQ(text_of(run / "metrics.jsonl"), metrics);
    EXPECT_EQ(live(every(1, true), run).result.resumed_from_step, 10);
}

TEST(Resume, ExistingRunWithoutResumeIsRefused) {
    const TempDir folder;
    live(every(1, true), folder / "run", 10);
    Trainer trainer(every(1, true), small_data());
    try {
        trainer.fit({.out = folder / "run"});
        ADD_FAILURE() << "an existing run was overwritten";
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr("--resume auto"));
    }
    EXPECT_EQ(live(every(1, true), folder / "run").result.resumed_from_step, 10);
}

TEST(Resume, FromAnOlderCheckpointLeavesTheOldPath) {
    const TempDir folder;
    const Recipe recipe = every(3, false);
    const Outcome whole = live(recipe, folder / "run");
    const fs::path older = folder / "run" / "checkpoints" / "15";
    ASSERT_TRUE(fs::exists(older));
    // Another learning rate: were a later checkpoint of the old path kept, a death would lead back to it.
    Recipe slower = recipe;
    slower.optimizer.lr /= 10;
    {
        Trainer trainer(slower, small_data());
        std::int64_t steps = 0;
        FitOptions options{.out = folder / "run", .resume = older.string()};
        options.on_step = [&](const Progress&) {
            if (++steps == 4) {
                throw std::runtime_error("killed");
            }
        };
        EXPECT_THROW(trainer.fit(options), std::runtime_error);
    }
    EXPECT_FALSE(fs::exists(folder / "run" / "checkpoints" / "21"));
    const Outcome rest = live(slower, folder / "run");
    EXPECT_EQ(rest.result.resumed_from_step, 18);
    EXPECT_FALSE(same_weights(rest.weights, whole.weights));
    EXPECT_EQ(rest.result.steps, kSteps);
}

TEST(Resume, FromAnotherRunNeedsAFolderOfItsOwn) {
    const TempDir folder;
    const Recipe recipe = every(1, true);
    const Outcome whole = live(recipe, folder / "whole");
    live(recipe, folder / "source", 10);
    {
        Trainer trainer(recipe, small_data());
        const TrainResult result = trainer.fit({.out = folder / "new", .resume = (folder / "source").string()});
        EXPECT_EQ(result.resumed_from_step, 10);
        EXPECT_EQ(figures(result.epochs), figures(whole.result.epochs));
    }
    const std::string metrics = text_of(folder / "whole" / "metrics.jsonl");
    Trainer trainer(recipe, small_data());
    EXPECT_THROW(trainer.fit({.out = folder / "whole", .resume = (folder / "source").string()}), InvalidArgument);
    EXPECT_EQ(text_of(folder / "whole" / "metrics.jsonl"), metrics);
}

TEST(Resume, NamesWithoutACheckpointAreRefused) {
    const TempDir folder;
    Trainer trainer(every(1, true), small_data());
    EXPECT_THROW(trainer.fit({.out = folder / "run", .resume = (folder / "nothing").string()}), IoError);
    EXPECT_FALSE(fs::exists(folder / "run"));
    EXPECT_THROW(trainer.fit({.resume = "auto"}), InvalidArgument);
}

TEST(Resume, DamagedStateIsRefused) {
    const TempDir folder;
    const fs::path run = folder / "run";
    const fs::path state = run / "checkpoints" / "10" / "state.json";
    live(every(1, true), run, 10);
    const std::string sound = text_of(state);
    for (const std::string& damaged : {std::string("{}"), std::string(""), sound.substr(0, sound.size() / 2),
                                       std::string(R"({"version": 99})")}) {
        std::ofstream(state, std::ios::binary) << damaged;
        EXPECT_THROW(live(every(1, true), run), InvalidArgument) << damaged;
    }
    std::ofstream(state, std::ios::binary) << sound;
    EXPECT_EQ(live(every(1, true), run).result.resumed_from_step, 10);
}

TEST(Resume, ADivergedRunCanGoOn) {
    const TempDir folder;
    Recipe recipe = every(1, true, "sgd");
    recipe.schedule.name = "constant";
    recipe.optimizer.lr = 1e30;
    const Outcome whole = live(recipe, folder / "whole");
    ASSERT_TRUE(std::isnan(whole.result.epochs[1].train_loss));
    live(recipe, folder / "run", 10);
    EXPECT_EQ(live(recipe, folder / "run").result.resumed_from_step, 10);
    EXPECT_EQ(metrics_of(folder / "run"), metrics_of(folder / "whole"));
}

TEST(Resume, TheSameTrainerGoesOnAfterAnInterrupt) {
    Trainer whole(every(1, true), small_data());
    const std::string expected = figures(whole.fit().epochs);
    for (const std::int64_t stop : {3, 7, 14, 21}) {
        Trainer trainer(every(1, true), small_data());
        std::atomic<int> interrupt = 0;
        std::int64_t steps = 0;
        const FitOptions options{.on_step = [&](const Progress&) { interrupt = ++steps == stop ? 2 : 0; },
                                 .interrupt = &interrupt};
        EXPECT_TRUE(trainer.fit(options).interrupted);
        EXPECT_EQ(figures(trainer.fit(options).epochs), expected) << "stopped at " << stop;
    }
}

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

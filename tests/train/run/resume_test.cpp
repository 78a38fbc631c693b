// A resumed run equals a run that never stopped: the same losses, weights and records, bit for bit, from any step. A
// run that cannot be resumed is refused before anything is changed.
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "train/support.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using testing::die;
using testing::every;
using testing::figures;
using ::testing::HasSubstr;
using testing::kEpochs;
using testing::kSteps;
using testing::live;
using testing::metrics_of;
using testing::Outcome;
using testing::same_weights;
using testing::small_data;
using testing::TempDir;
using testing::text_of;

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

TEST(Resume, AfterAKillStartsFromTheNewestCheckpoint) {
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
        const std::string what =
            fmt::format("every {} {}, dead at {}", c.count, c.epochs ? "epochs" : "steps", c.death);
        const Recipe recipe = every(c.count, c.epochs);
        const fs::path run = folder / what;
        die(recipe, run, c.death);
        EXPECT_EQ(find_checkpoint(run).has_value(), c.from > 0) << what;
        const Outcome rest = live(recipe, run);
        EXPECT_EQ(rest.result.resumed_from_step.value_or(0), c.from) << what;
        expect_same(whole, folder / "whole", rest, run, what);
    }
}

TEST(Resume, ThroughManyKills) {
    const TempDir folder;
    const Recipe recipe = every(2, false);
    const Outcome whole = live(recipe, folder / "whole");
    for (int i = 0; i < 6; ++i) {
        die(recipe, folder / "run", 4);  // two new checkpoints each time; the steps after them are lost
    }
    const Outcome rest = live(recipe, folder / "run");
    EXPECT_GT(rest.result.resumed_from_step.value_or(0), 10);
    expect_same(whole, folder / "whole", rest, folder / "run", "many kills");
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
        for (const Phase phase : {Phase::forward, Phase::backward}) {
            const auto i = static_cast<std::size_t>(phase);
            EXPECT_EQ(again.result.account.times[i], whole.result.account.times[i]) << phase_name(phase);
        }
        // The last step's checkpoint is written again after the evaluation, so the evaluation is not repeated.
        constexpr auto kEvaluate = static_cast<std::size_t>(Phase::evaluate);
        EXPECT_EQ(again.result.account.times[kEvaluate], whole.result.account.times[kEvaluate]);
    }
}

TEST(Resume, AutoWithoutACheckpointStartsANewRun) {
    const TempDir folder;
    EXPECT_FALSE(live(every(1, true), folder / "a" / "b").result.resumed_from_step);
    fs::create_directory(folder / "empty");
    EXPECT_FALSE(live(every(1, true), folder / "empty").result.resumed_from_step);
}

TEST(Resume, MoreEpochsContinueAFinishedRun) {
    const TempDir folder;
    Recipe recipe = every(1, true);
    recipe.schedule.name = "constant";
    Recipe shorter = recipe;
    shorter.train.epochs = 2;
    const Outcome whole = live(recipe, folder / "whole");
    live(shorter, folder / "run");
    expect_same(whole, folder / "whole", live(recipe, folder / "run"), folder / "run", "2 epochs, then 3");
    EXPECT_EQ(live(shorter, folder / "run").result.epochs.size(), 3u) << "fewer epochs remove nothing";
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

TEST(Resume, FromAnOlderCheckpointRemovesTheNewerOnes) {
    const TempDir folder;
    const Recipe recipe = every(3, false);
    const Outcome whole = live(recipe, folder / "run");
    const fs::path older = folder / "run" / "checkpoints" / "15";
    ASSERT_TRUE(fs::exists(older));
    // With another learning rate. If a later checkpoint of the old run were kept, the killed run would resume from it.
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
        options.on_failure = [&](const FailedRun& failed) {  // a killed run leaves no checkpoint
            fs::remove_all(folder / "run" / "checkpoints" / fmt::to_string(failed.step));
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

TEST(Resume, PathsWithoutACheckpointAreRefused) {
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
    fs::remove_all(run / "checkpoints" / "7");  // which "auto" would take
    const std::string sound = text_of(state);
    for (const std::string& damaged :
         {std::string("{}"), std::string(""), sound.substr(0, sound.size() / 2), std::string(R"({"version": 99})")}) {
        std::ofstream(state, std::ios::binary) << damaged;
        EXPECT_THROW(live(every(1, true), run), Error) << damaged;
    }
    std::ofstream(state, std::ios::binary) << sound;
    EXPECT_EQ(live(every(1, true), run).result.resumed_from_step, 10);
}

TEST(Resume, ContradictoryStateIsRefusedAndChangesNothing) {
    const TempDir folder;
    const fs::path run = folder / "run";
    const fs::path state = run / "checkpoints" / "10" / "state.json";
    live(every(1, true), run, 10);
    fs::remove_all(run / "checkpoints" / "7");  // which "auto" would take
    const std::string sound = text_of(state);
    const std::string metrics = text_of(run / "metrics.jsonl");
    const std::string recipe = text_of(run / "recipe.toml");
    struct Change {
        const char* where;
        nlohmann::json value;
    };
    constexpr std::int64_t kHuge = std::int64_t{1} << 62;
    for (const auto& [where, value] :
         {Change{"/step", 11}, Change{"/step", 3}, Change{"/step", -10}, Change{"/step", kHuge},
          Change{"/epochs", nlohmann::json::array()}, Change{"/loader/epoch", 2}, Change{"/loader/epoch", kHuge},
          Change{"/loader/batch", 4}, Change{"/epoch_so_far/samples", -1}}) {
        nlohmann::json damaged = nlohmann::json::parse(sound);
        damaged[nlohmann::json::json_pointer(where)] = value;
        std::ofstream(state, std::ios::binary) << damaged;
        Recipe longer = every(1, true);  // which a resume would write to recipe.toml
        longer.train.epochs = 9;
        EXPECT_THROW(live(longer, run), Error) << where << " = " << value;
        EXPECT_EQ(text_of(run / "metrics.jsonl"), metrics) << where;
        EXPECT_EQ(text_of(run / "recipe.toml"), recipe) << where;
    }
    std::ofstream(state, std::ios::binary) << sound;
    EXPECT_EQ(live(every(1, true), run).result.resumed_from_step, 10);
}

TEST(Resume, RandomValidationOpsDrawTheSameAgain) {
    const TempDir folder;
    Recipe recipe = every(1, true);
    recipe.data.val_ops = {{.name = "horizontal_flip", .options = {}, .where = "test"}};
    const Outcome whole = live(recipe, folder / "whole");
    EXPECT_NE(figures(whole.result.epochs), figures(live(every(1, true), folder / "plain").result.epochs));
    for (const std::int64_t stop : {3, 7, 10, 20}) {
        const fs::path run = folder / fmt::format("run{}", stop);
        live(recipe, run, stop);
        expect_same(whole, folder / "whole", live(recipe, run), run, fmt::format("stopped at {}", stop));
    }
}

// Validation data that stops the run while it is read, after `stop_at` samples.
struct StoppedEvaluation {
    explicit StoppedEvaluation(std::int64_t stop_at) {
        val->before_read = [this, stop_at](std::int64_t) {
            if (++reads == stop_at) {
                interrupt = 15;
            }
        };
    }
    std::shared_ptr<testing::SquareDataset> val = std::make_shared<testing::SquareDataset>(800, 2);
    std::atomic<std::int64_t> reads = 0;
    std::atomic<int> interrupt = 0;
};

Outcome live_with(const Recipe& recipe, const fs::path& run, StoppedEvaluation& evaluation) {
    Trainer trainer(recipe, {std::make_shared<testing::SquareDataset>(100), evaluation.val});
    TrainResult result = trainer.fit({.out = run, .resume = "auto", .interrupt = &evaluation.interrupt});
    return {std::move(result), testing::weights_of(trainer)};
}

TEST(Resume, InterruptDuringAnEvaluation) {
    const TempDir folder;
    const Recipe recipe = every(1, true);
    StoppedEvaluation never(-1);
    const Outcome whole = live_with(recipe, folder / "whole", never);
    EXPECT_EQ(never.reads, kEpochs * 800 + 1 + 64);  // one read learns the shape, 64 compare it
    for (const std::int64_t finished : {0, 1, 2}) {
        const fs::path run = folder / fmt::format("run{}", finished);
        StoppedEvaluation evaluation(finished * 800 + 200);
        const Outcome first = live_with(recipe, run, evaluation);
        EXPECT_TRUE(first.result.interrupted);
        EXPECT_EQ(first.result.epochs.size(), static_cast<std::size_t>(finished));
        EXPECT_LT(evaluation.reads, finished * 800 + 400) << "it ends within the batches in flight";
        const std::int64_t steps = (finished + 1) * testing::kStepsAnEpoch;
        EXPECT_TRUE(fs::exists(run / "checkpoints" / fmt::to_string(steps) / "state.json"));
        StoppedEvaluation rest(-1);
        const Outcome second = live_with(recipe, run, rest);
        EXPECT_EQ(second.result.resumed_from_step, steps);
        expect_same(whole, folder / "whole", second, run, fmt::format("in evaluation {}", finished + 1));
    }
}

std::string without_resumed_from(const std::string& document) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(document);
    json.erase("resumed_from_step");
    return json.dump();
}

TEST(Resume, DocumentOfAFinishedRunIsTheOneItEndedWith) {
    const TempDir folder;
    const fs::path account = folder / "run" / "account.json";
    const Outcome whole = live(every(1, true), folder / "run");
    const std::string stored = text_of(account);
    EXPECT_EQ(stored, whole.result.document + "\n");
    const Outcome again = live(every(1, true), folder / "run");
    EXPECT_EQ(text_of(account), stored);
    EXPECT_EQ(without_resumed_from(again.result.document), without_resumed_from(stored));
    EXPECT_EQ(nlohmann::json::parse(again.result.document)["resumed_from_step"], kSteps);
}

TEST(Resume, DocumentOfAnEarlierStopIsNotThatOfTheEnd) {
    const TempDir folder;
    const fs::path account = folder / "run" / "account.json";
    live(every(1, true), folder / "run", 10);
    const std::string stopped = text_of(account);
    live(every(1, true), folder / "run");
    for (const std::string& old : {stopped, std::string("no JSON")}) {
        std::ofstream(account, std::ios::binary) << old;  // as if it was killed between checkpoint and account
        const Outcome again = live(every(1, true), folder / "run");
        const auto document = nlohmann::json::parse(again.result.document);
        EXPECT_EQ(document["epochs"].size(), 3u);
        EXPECT_EQ(document["interrupted"], false);
        EXPECT_EQ(text_of(account), again.result.document + "\n");
    }
}

TEST(Resume, ADivergedRunCanBeResumed) {
    const TempDir folder;
    Recipe recipe = every(1, true, "sgd");
    recipe.schedule.name = "constant";
    recipe.optimizer.lr = 1e30;
    recipe.train.stop_at_nan = false;
    const Outcome whole = live(recipe, folder / "whole");
    ASSERT_TRUE(std::isnan(whole.result.epochs[1].train_loss));
    live(recipe, folder / "run", 10);
    EXPECT_EQ(live(recipe, folder / "run").result.resumed_from_step, 10);
    EXPECT_EQ(metrics_of(folder / "run"), metrics_of(folder / "whole"));
}

TEST(Resume, TheSameTrainerContinuesAfterAnInterrupt) {
    Trainer whole(every(1, true), small_data());
    const std::string expected = figures(whole.fit().epochs);
    for (const std::int64_t stop : {3, 7, 14, 21}) {
        Trainer trainer(every(1, true), small_data());
        std::atomic<int> interrupt = 0;
        std::int64_t steps = 0;
        const FitOptions options{.on_step = [&](const Progress&) { interrupt = ++steps == stop ? 2 : 0; },
                                 .interrupt = &interrupt};
        EXPECT_TRUE(trainer.fit(options).interrupted);
        interrupt = 0;
        EXPECT_EQ(figures(trainer.fit(options).epochs), expected) << "stopped at " << stop;
    }
}

TEST(Resume, ATrainerMadeToResumeNeedsACheckpoint) {
    const TempDir folder;
    Recipe recipe = every(1, true);
    recipe.model.weights = folder / "gone.safetensors";
    EXPECT_THROW(Trainer(recipe, small_data()), Error);
    Trainer trainer(recipe, small_data(), nullptr, OptimizerKernel::fused, /*resumes=*/true);
    EXPECT_THROW(trainer.fit({.out = folder / "run", .resume = "auto"}), InvalidArgument);
    EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

}  // namespace
}  // namespace stoker

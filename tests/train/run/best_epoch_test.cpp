// The best epoch: as a function of epochs, as the checkpoint RUN/best, and as the end of a run.
#include "stoker/train/run/best_epoch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "train/support.h"

namespace stoker {
namespace {

using testing::small_data;
using testing::small_recipe;
using testing::TempDir;

std::vector<EpochResult> epochs_of(const std::vector<double>& losses) {
    std::vector<EpochResult> epochs;
    for (const double loss : losses) {
        epochs.push_back(
            {.epoch = std::ssize(epochs) + 1,
             .val_loss = loss < 0 ? std::nullopt : std::optional(loss),
             .val_metrics = loss < 0 ? std::vector<Metric>() : std::vector<Metric>{{"accuracy", 1 - loss}}});
    }
    return epochs;
}

TEST(BestEpoch, IsTheFirstOfTheBest) {
    const Task task{.outputs = 4};
    const BestBy loss = best_by(task, "val_loss").value();
    const BestBy accuracy = best_by(task, "val_accuracy").value();
    EXPECT_FALSE(best_by(task, "val_top5_accuracy"));  // with more than five classes only
    EXPECT_FALSE(best_by(task, "val_f1_macro"));
    EXPECT_EQ(best_epoch(epochs_of({}), loss), nullptr);
    const auto epochs = epochs_of({0.5, std::nan(""), 0.3, 0.3, 0.4});
    EXPECT_EQ(best_epoch(epochs, loss)->epoch, 3);
    EXPECT_EQ(best_epoch(epochs, accuracy)->epoch, 3);
    EXPECT_TRUE(stops_early(epochs, loss, 2));
    EXPECT_FALSE(stops_early(epochs, loss, 3));
    EXPECT_FALSE(stops_early(epochs, loss, 0));
    EXPECT_FALSE(stops_early(epochs_of({0.5, -1, 0.4}), loss, 1));    // an epoch without evaluation
    const double infinity = std::numeric_limits<double>::infinity();  // a checkpoint has null for it
    EXPECT_EQ(best_epoch(epochs_of({infinity}), loss), nullptr);
    EXPECT_FALSE(stops_early(epochs_of({infinity, infinity}), loss, 3));
    EXPECT_TRUE(stops_early(epochs_of({infinity, infinity}), loss, 2)) << "none was better";
    // Evaluations count, not epochs.
    EXPECT_FALSE(stops_early(epochs_of({-1, 0.3, -1, -1}), loss, 1));
    EXPECT_TRUE(stops_early(epochs_of({-1, 0.3, -1, 0.4}), loss, 1));
    EXPECT_FALSE(stops_early(epochs_of({-1, 0.3, -1, 0.4}), loss, 2));
    EXPECT_FALSE(stops_early(epochs_of({}), loss, 1));
}

// Epochs that were not evaluated have a training loss alone, which says nothing of the other one.
TEST(BestEpoch, PlateauReadsLossesOfOneKind) {
    Recipe recipe = small_recipe(6);
    recipe.optimizer.lr = 1e-30;  // both losses stay what they are
    recipe.schedule = {.name = "plateau", .gamma = 0.5, .patience = 0};
    recipe.train.evaluate_every = 2;
    std::map<std::int64_t, double> rates;  // by epoch
    Trainer(recipe, small_data()).fit({.on_record = [&](const std::string& line) {
        if (const auto json = nlohmann::json::parse(line); json["type"] == "step") {
            rates[json["epoch"]] = json["lr"];
        }
    }});
    EXPECT_DOUBLE_EQ(rates[4] / rates[1], 1);
    EXPECT_DOUBLE_EQ(rates[5] / rates[1], 0.5) << "two evaluations without an improvement in the second";
}

TEST(BestEpoch, AloneItIsTheCheckpoint) {
    const TempDir folder;
    std::filesystem::create_directories(folder / "run/best");
    EXPECT_FALSE(find_checkpoint(folder / "run"));
    std::ofstream(folder / "run/best/state.json") << "{}";
    EXPECT_EQ(find_checkpoint(folder / "run"), folder / "run/best");
}

// A rate that grows makes later epochs worse than the first ones.
Recipe worsening(std::int64_t epochs) {
    Recipe recipe = small_recipe(epochs);
    recipe.optimizer = {.name = "sgd", .lr = 0.3};
    recipe.schedule = {.name = "multi_step", .gamma = 60, .milestones = {3}};
    recipe.train.stop_at_nan = false;
    recipe.train.keep_best = "val_accuracy";
    return recipe;
}

TEST(BestEpoch, HasACheckpointOfItsOwn) {
    const TempDir folder;
    const std::filesystem::path run = folder / "run";
    Trainer trainer(worsening(8), small_data());
    const TrainResult result = trainer.fit({.out = run});
    const EpochResult* best = best_epoch(result.epochs, {.metric = "accuracy", .higher_is_better = true});
    ASSERT_NE(best, nullptr);
    ASSERT_LT(best->epoch, 6);  // its numbered checkpoint is gone
    EXPECT_EQ(result.best_epoch, best->epoch);
    EXPECT_EQ(read_step(run / kBest), best->epoch * testing::kStepsAnEpoch);
    EXPECT_EQ(find_checkpoint(run / kBest), run / kBest);
    EXPECT_EQ(find_checkpoint(run), run / kCheckpoints / std::to_string(8 * testing::kStepsAnEpoch));
    Recipe recipe = worsening(8);
    recipe.model.weights = (run / kBest).string();
    EXPECT_EQ(Trainer(recipe, small_data()).evaluate().accuracy, *best->val_accuracy);
    EXPECT_FALSE(std::filesystem::exists(run / kCheckpoints / ".writing-best"));
}

// Going back to an earlier checkpoint also drops a best one that came after it.
TEST(BestEpoch, ARewoundRunHasNoBestOfTheFuture) {
    const TempDir folder;
    const std::filesystem::path run = folder / "run";
    Recipe recipe = small_recipe(4);
    recipe.train.keep_best = "val_loss";
    const TrainResult whole = Trainer(recipe, small_data()).fit({.out = run});
    ASSERT_GT(whole.best_epoch, 2);
    std::atomic<int> interrupt = 15;  // at the first step
    const std::filesystem::path second = run / kCheckpoints / std::to_string(2 * testing::kStepsAnEpoch);
    Trainer rewound(recipe, small_data(), nullptr, OptimizerKernel::fused, /*resumes=*/true);
    rewound.fit({.out = run, .resume = second.string(), .interrupt = &interrupt});
    EXPECT_FALSE(std::filesystem::exists(run / kBest));
    const TrainResult done =
        Trainer(recipe, small_data(), nullptr, OptimizerKernel::fused, true).fit({.out = run, .resume = "auto"});
    EXPECT_EQ(done.best_epoch, whole.best_epoch);
    EXPECT_EQ(read_step(run / kBest), *whole.best_epoch * testing::kStepsAnEpoch);
}

TEST(BestEpoch, ARunEndsWhereNothingGetsBetter) {
    const TempDir folder;
    Recipe recipe = worsening(40);
    recipe.train.early_stop = 3;
    const TrainResult result = Trainer(recipe, small_data()).fit({.out = folder / "run"});
    EXPECT_TRUE(result.stopped_early);
    EXPECT_FALSE(result.interrupted);
    ASSERT_TRUE(result.best_epoch);
    EXPECT_EQ(std::ssize(result.epochs), *result.best_epoch + 3);
    EXPECT_LT(std::ssize(result.epochs), 40);
    const TrainResult again = Trainer(recipe, small_data(), nullptr, OptimizerKernel::fused, true)
                                  .fit({.out = folder / "run", .resume = "auto"});
    EXPECT_EQ(again.steps, result.steps);
}

// Stopped in the middle of epochs and resumed, a run keeps the same epoch and ends after the same one.
TEST(BestEpoch, AResumedRunDecidesTheSame) {
    const TempDir folder;
    Recipe recipe = worsening(40);
    recipe.train.early_stop = 3;
    const auto run = [&](const std::filesystem::path& out, std::int64_t stop_after) {
        Trainer trainer(recipe, small_data(), nullptr, OptimizerKernel::fused, /*resumes=*/stop_after != 10);
        std::atomic<int> interrupt = 0;
        std::int64_t steps = 0;
        FitOptions options{.out = out, .resume = "auto", .interrupt = &interrupt};
        options.on_step = [&](const Progress&) { interrupt = ++steps == stop_after ? 15 : 0; };
        return trainer.fit(options);
    };
    const TrainResult whole = Trainer(recipe, small_data()).fit({.out = folder / "whole"});
    ASSERT_TRUE(whole.stopped_early);
    TrainResult parts = run(folder / "parts", 10);
    for (std::int64_t pieces = 1; parts.interrupted; ++pieces) {
        EXPECT_FALSE(parts.stopped_early);
        ASSERT_LT(pieces, 40);
        parts = run(folder / "parts", 5);
    }
    EXPECT_TRUE(parts.stopped_early);
    EXPECT_EQ(parts.best_epoch, whole.best_epoch);
    EXPECT_EQ(testing::figures(parts.epochs), testing::figures(whole.epochs));
    EXPECT_EQ(read_step(folder / "parts" / kBest), read_step(folder / "whole" / kBest));
    EXPECT_TRUE(testing::same_weights(read_checkpoint(folder / "parts" / kBest).model,
                                      read_checkpoint(folder / "whole" / kBest).model));
}

// An epoch that was the best one before anybody asked was not saved, and the result names none.
TEST(BestEpoch, OneThatWasNotKeptIsNotNamed) {
    const TempDir folder;
    Recipe recipe = worsening(6);
    recipe.train.keep_best.clear();
    Trainer(recipe, small_data()).fit({.out = folder / "run"});
    const TrainResult more = Trainer(worsening(8), small_data(), nullptr, OptimizerKernel::fused, /*resumes=*/true)
                                 .fit({.out = folder / "run", .resume = "auto"});
    ASSERT_LT(best_epoch(more.epochs, {.metric = "accuracy", .higher_is_better = true})->epoch, 7);
    EXPECT_FALSE(std::filesystem::exists(folder / "run" / kBest));
    EXPECT_FALSE(more.best_epoch);
}

TEST(BestEpoch, NeedsValidationData) {
    Recipe recipe = small_recipe();
    recipe.train.early_stop = 2;
    EXPECT_THROW(Trainer(recipe, {small_data().train, nullptr}), InvalidArgument);
    recipe.train.early_stop = 0;
    recipe.train.keep_best = "val_mae";
    EXPECT_THROW(Trainer(recipe, small_data()), InvalidArgument);
}

}  // namespace
}  // namespace stoker

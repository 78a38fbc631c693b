// Settings that several ranks must have in common, and their refusals before the first step.
#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include "support/ranks.h"
#include "train/support.h"

namespace stoker {
namespace {

using ::testing::AllOf;
using testing::as_ranks;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::small_recipe;
using testing::SquareDataset;
using testing::TempDir;

constexpr std::int64_t kCheckedSamples = 97;

RecipeData checked_data() {
    return {std::make_shared<SquareDataset>(kCheckedSamples), std::make_shared<SquareDataset>(37, 2)};
}

// A model passed by the program, which the recipe does not describe.
TEST(RanksModel, MustBeTheSame) {
    EXPECT_THAT(
        as_ranks(
            2,
            [](const auto& group) {
                const Recipe recipe = small_recipe(1);
                ModelRecipe mlp = recipe.model;
                mlp.hidden = {group->first() ? 8 : 9};
                Trainer(recipe, checked_data(), make_model(mlp, {1, 4, 4}, 4, 1), OptimizerKernel::fused, false, group);
            }),
        ::testing::Contains(HasSubstr("expected the same model on all ranks")));
}

TEST(RanksModel, NamesParametersWithoutAGradient) {
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             auto model = std::make_unique<testing::LinearModel>();
                             model->add_parameter("spare", at::full({3}, 1.0));
                             Trainer trainer(small_recipe(1), checked_data(), std::move(model), OptimizerKernel::fused,
                                             false, group);
                             trainer.fit();
                         }),
                Each(HasSubstr("got spare without a gradient; name them in model.freeze")));
}

TEST(RanksRecipe, MustBeTheSameExceptForHostSettings) {
    const auto with = [](const std::function<void(Recipe&)>& change) {
        return as_ranks(2, [&](const auto& group) {
            Recipe recipe = small_recipe(1);
            if (!group->first()) {
                change(recipe);
            }
            Trainer(recipe, checked_data(), nullptr, OptimizerKernel::fused, false, group);
        });
    };
    EXPECT_THAT(
        with([](Recipe& recipe) { recipe.optimizer.lr = 0.5; }),
        Each("[optimizer.lr] expected 0.01, as on rank 0, got 0.5 on rank 1; start all ranks with the same recipe "
             "and data"));
    EXPECT_THAT(with([](Recipe& recipe) {
                    recipe.data.train = "elsewhere";
                    recipe.data.workers = 2;
                }),
                Each(""));
}

TEST(RanksData, MustBeTheSame) {
    for (const bool of_training : {true, false}) {
        EXPECT_THAT(as_ranks(2,
                             [&](const auto& group) {
                                 RecipeData data = checked_data();
                                 if (!group->first()) {
                                     (of_training ? data.train : data.val) = std::make_shared<SquareDataset>(90);
                                 }
                                 Trainer(small_recipe(1), data, nullptr, OptimizerKernel::fused, false, group);
                             }),
                    Each(::testing::MatchesRegex(of_training ? "\\[data.train\\] expected 97 samples.*got 90.*"
                                                             : "\\[data.val\\] expected 37 samples.*got 90.*")));
    }
}

TEST(RanksStart, MustBeTheSame) {
    const TempDir dir;
    EXPECT_THAT(as_ranks(2,
                         [&](const auto& group) {
                             Trainer trainer(small_recipe(1), checked_data(), nullptr, OptimizerKernel::fused, false,
                                             group);
                             trainer.fit({.out = dir.path() / "run", .resume = group->first() ? "" : "auto"});
                         }),
                Each(HasSubstr("[resume] expected none, as on rank 0, got auto on rank 1")));
}

// A vote that stopped one run does not stop the next.
TEST(RanksStart, ForgetsAnEarlierRunsSignal) {
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             Trainer trainer(small_recipe(1), checked_data(), nullptr, OptimizerKernel::fused, false,
                                             group);
                             const std::atomic<int> stop = 15;
                             EXPECT_TRUE(trainer.fit({.interrupt = &stop}).interrupted);
                             EXPECT_FALSE(trainer.fit().interrupted);
                         }),
                Each(""));
}

// In a batch of one sample one rank has none.
TEST(RanksEvaluation, CountsTheTopFiveWhereOneHasNoSample) {
    EXPECT_THAT(as_ranks(2,
                         [](const auto& group) {
                             Recipe recipe = small_recipe(1);
                             recipe.model.classes = 6;
                             const RecipeData data = {std::make_shared<SquareDataset>(kCheckedSamples),
                                                      std::make_shared<SquareDataset>(1, 2)};
                             Trainer trainer(recipe, data, nullptr, OptimizerKernel::fused, false, group);
                             EXPECT_TRUE(trainer.evaluate().top5.has_value());
                         }),
                Each(""));
}

// 98 samples in batches of 16: the last batch has one sample for each of two ranks; batch norm needs more.
TEST(RanksBatch, IsLargeEnoughForTheModelToTheLast) {
    const auto train = [](bool drop_last) {
        return as_ranks(2, [=](const auto& group) {
            Recipe recipe = small_recipe(1);
            recipe.model.name = "resnet18";
            recipe.data.drop_last = drop_last;
            Trainer(recipe, {std::make_shared<SquareDataset>(98), nullptr}, nullptr, OptimizerKernel::fused, false,
                    group);
        });
    };
    EXPECT_THAT(train(false), Each(AllOf(HasSubstr("[data.drop_last] expected at least two samples at a time"),
                                         HasSubstr("one in an epoch's last batch of 2, over 2 ranks"))));
    EXPECT_THAT(train(true), Each(""));
}

// With the statistics of all ranks two samples in all are enough, also where ranks have none, in any micro-batch.
TEST(RanksBatch, IsLargeEnoughTogetherWithSyncBatchNorm) {
    const auto train = [](std::int64_t samples, std::int64_t accumulate) {
        return as_ranks(4, [=](const auto& group) {
            Recipe recipe = small_recipe(1);
            recipe.model.name = "convnet";
            recipe.train.accumulate = accumulate;
            recipe.train.sync_batch_norm = true;
            Trainer trainer(recipe, {std::make_shared<SquareDataset>(samples), nullptr}, nullptr,
                            OptimizerKernel::fused, false, group);
            const TrainResult result = trainer.fit();
            EXPECT_TRUE(std::isfinite(result.epochs.at(0).train_loss));
        });
    };
    EXPECT_THAT(train(34, 1), Each("")) << "two samples are left for the last batch";
    EXPECT_THAT(train(33, 1), Each(HasSubstr("one in an epoch's last batch of 1, over 4 ranks")));
    EXPECT_THAT(train(38, 3), Each("")) << "six are left: two ranks have two, two have one";
    EXPECT_THAT(train(37, 2), Each(HasSubstr("one in an epoch's last batch of 5, over 4 ranks, in 2 parts")));
}

TEST(RanksModel, WithoutBatchNormHasNoneToSync) {
    Recipe recipe = small_recipe(1);
    recipe.train.sync_batch_norm = true;
    try {
        const Trainer trainer(recipe, checked_data());
        FAIL() << "an mlp lacks batch norm";
    } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr("[train.sync_batch_norm] expected false, except for convnet and the"));
    }
}

TEST(RanksBatch, IsDividedByThem) {
    EXPECT_THAT(as_ranks(3,
                         [](const auto& group) {
                             Trainer(small_recipe(1), checked_data(), nullptr, OptimizerKernel::fused, false, group);
                         }),
                Each(HasSubstr("[data.batch_size] expected a multiple of the 3 ranks, got 16")));
}

}  // namespace
}  // namespace stoker

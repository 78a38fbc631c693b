// The loop without a Trainer: it counts steps and epochs, and stops and continues where an interrupt says.
#include "stoker/train/train_loop.h"

#include <gtest/gtest.h>

#include "train/support.h"

namespace stoker {
namespace {

using testing::figures;
using testing::kEpochs;
using testing::kSteps;
using testing::kStepsAnEpoch;
using testing::small_data;
using testing::small_recipe;

struct Parts {
    explicit Parts(const Recipe& recipe, RecipeData data = small_data())
        : plan(plan_training(recipe, std::move(data), nullptr, /*resumes=*/false, std::make_shared<Group>())),
          ranks(*plan.group, recipe.data.bad_samples),
          loop(plan, recorder, ranks, OptimizerKernel::fused) {}

    TrainPlan plan;
    RunRecorder recorder;  // without a folder
    RankSync ranks;
    TrainLoop loop;
};

TEST(TrainLoop, TrainsAllEpochs) {
    Parts parts(small_recipe(kEpochs));
    std::vector<std::int64_t> batches;
    EXPECT_TRUE(parts.loop.run({.on_step = [&](const Progress& at) { batches.push_back(at.batch); }}));
    EXPECT_EQ(parts.loop.steps(), kSteps);
    EXPECT_TRUE(parts.loop.finished());
    ASSERT_EQ(std::ssize(batches), kSteps);
    EXPECT_EQ(batches[6], 7);
    EXPECT_EQ(batches[7], 1);
    const std::vector<EpochResult>& epochs = parts.loop.epochs();
    ASSERT_EQ(std::ssize(epochs), kEpochs);
    EXPECT_LT(epochs.back().train_loss, epochs.front().train_loss);
    EXPECT_EQ(parts.loop.evaluate(nullptr, nullptr)->loss, *epochs.back().val_loss);
    EXPECT_FALSE(parts.loop.evaluate([] { return true; }, nullptr)) << "stopped after its first batch";
}

TEST(TrainLoop, ContinuesAfterAnInterrupt) {
    Parts whole(small_recipe(kEpochs));
    EXPECT_TRUE(whole.loop.run({}));
    Parts parts(small_recipe(kEpochs));
    std::atomic<int> interrupt = 0;
    const FitOptions options{.on_step = [&](const Progress&) { interrupt = parts.loop.steps() == 10 ? 15 : 0; },
                             .interrupt = &interrupt};
    EXPECT_FALSE(parts.loop.run(options));
    EXPECT_EQ(parts.loop.steps(), 10);
    EXPECT_EQ(parts.loop.signal(), 15);
    EXPECT_EQ(std::ssize(parts.loop.epochs()), 1);
    interrupt = 0;
    EXPECT_TRUE(parts.loop.run(options));
    EXPECT_EQ(figures(parts.loop.epochs()), figures(whole.loop.epochs()));
}

TEST(TrainLoop, FollowsTheSchedule) {
    Recipe recipe = small_recipe(2);
    recipe.schedule.name = "step";
    recipe.schedule.step_size = 1;
    recipe.schedule.gamma = 0;
    Parts parts(recipe);
    std::vector<NamedTensor> after_first;
    EXPECT_TRUE(parts.loop.run({.on_epoch = [&](const EpochResult& epoch) {
        for (const auto& [name, tensor] : parts.plan.model->state()) {
            if (epoch.epoch == 1) {
                after_first.push_back({name, tensor.detach().clone()});
            }
        }
    }}));
    EXPECT_EQ(parts.loop.steps(), 2 * kStepsAnEpoch);
    EXPECT_TRUE(testing::same_weights(parts.plan.model->state(), after_first)) << "the second epoch's rate is 0";
}

}  // namespace
}  // namespace stoker

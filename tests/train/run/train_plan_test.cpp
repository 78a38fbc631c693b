// The plan of a run: it has all parts, and it refuses a run before anything is trained or written.
#include "stoker/train/run/train_plan.h"

#include <gtest/gtest.h>

#include "stoker/base/error.h"
#include "train/support.h"

namespace stoker {
namespace {

using testing::small_data;
using testing::small_recipe;
using testing::SquareDataset;
using testing::TempDir;

TrainPlan plan_of(const Recipe& recipe, RecipeData data) {
    return plan_training(recipe, std::move(data), nullptr, /*resumes=*/false, std::make_shared<Group>());
}

TEST(TrainPlan, HasAllParts) {
    const TrainPlan plan = plan_of(small_recipe(), small_data());
    EXPECT_EQ(plan.task.outputs, 4);
    EXPECT_EQ(plan.train_loader->batches_per_epoch(), testing::kStepsAnEpoch);
    EXPECT_EQ(plan.train_loader->state().batch, 0);
    EXPECT_EQ(plan.val_loader->dataset().size(), 40);
    EXPECT_TRUE(plan.model->training());
    EXPECT_TRUE(plan.has_weights);
    EXPECT_EQ(plan.model_hash, "");
    EXPECT_EQ(plan_of(small_recipe(), {small_data().train, nullptr}).val_loader, nullptr);
}

// Without workers a loader reads one sample when it is made, to learn the images' shape, and no other before `next`.
TEST(TrainPlan, RefusesBeforeAnySideEffect) {
    const TempDir folder;
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(folder.path());
    const std::vector<std::function<void(Recipe&)>> mistakes = {
        [](Recipe& recipe) { recipe.model.classes = 3; },
        [](Recipe& recipe) { recipe.model.weights = "gone.safetensors"; },
        [](Recipe& recipe) { recipe.model.freeze = {"*"}; },
        [](Recipe& recipe) { recipe.model.script = "gone.pt"; },
        [](Recipe& recipe) { recipe.data.batch_size = 0; },
        [](Recipe& recipe) { recipe.device = "cuda:99"; },
        [](Recipe& recipe) { recipe.device = "cpu", recipe.train.data_parallel = true; },
    };
    for (std::size_t i = 0; i < mistakes.size(); ++i) {
        std::int64_t reads = 0;
        const auto data = std::make_shared<SquareDataset>(100);
        data->before_read = [&](std::int64_t) { ++reads; };
        Recipe recipe = small_recipe();
        recipe.data.workers = 0;
        mistakes[i](recipe);
        EXPECT_THROW(plan_of(recipe, {data, nullptr}), Error) << i;
        EXPECT_LE(reads, 1) << i;
    }
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
    std::filesystem::current_path(before);
}

}  // namespace
}  // namespace stoker

// An evaluation while there is a graph of the step, which keeps memory that the evaluation may need.
#include "stoker/train/run/evaluate.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "stoker/train/run/train_plan.h"
#include "train/support.h"

namespace stoker {
namespace {

TEST(Evaluate, ABatchThatDoesNotFitIsTriedAgainWhereMemoryIsFreedAndElseSplit) {
    auto model = std::make_unique<testing::LinearModel>();
    testing::LinearModel& linear = *model;
    const TrainPlan plan = plan_training(testing::small_recipe(1), testing::small_data(), std::move(model),
                                         /*resumes=*/false, std::make_shared<Group>());
    const auto evaluate_with = [&](std::function<bool()> free_memory, int last = 2) {
        int passes = 0;
        linear.before_forward = [passes, last]() mutable {
            ++passes;
            if (passes >= 2 && passes <= last) {
                C10_THROW_ERROR(OutOfMemoryError, "CUDA out of memory");
            }
        };
        return evaluate(linear, *plan.val_loader, plan.task, plan.device, {.free_memory = std::move(free_memory)});
    };
    const Evaluation whole = evaluate(linear, *plan.val_loader, plan.task, plan.device).value();
    int freed = 0;
    const auto again = evaluate_with([&] {
        ++freed;
        return true;
    });
    ASSERT_TRUE(again);
    EXPECT_EQ(freed, 1);
    EXPECT_EQ(again->loss, whole.loss);
    EXPECT_EQ(again->accuracy, whole.accuracy);
    EXPECT_EQ(again->samples, whole.samples);
    for (const auto& free_memory : {std::function<bool()>([] { return false; }), std::function<bool()>()}) {
        const auto split = evaluate_with(free_memory, 3);
        ASSERT_TRUE(split);
        EXPECT_NEAR(split->loss, whole.loss, 1e-6);
        EXPECT_EQ(split->accuracy, whole.accuracy);
        EXPECT_EQ(split->samples, whole.samples);
    }
    EXPECT_THROW(evaluate_with(nullptr, 1000), c10::OutOfMemoryError) << "one sample does not fit";
}

}  // namespace
}  // namespace stoker

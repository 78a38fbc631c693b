// The loop without a Trainer: it counts steps and epochs, and stops and continues where an interrupt says.
#include "stoker/train/train_loop.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "train/support.h"

namespace stoker {
namespace {

using testing::figures;
using testing::kEpochs;
using testing::kSteps;
using testing::kStepsAnEpoch;
using testing::small_data;
using testing::small_recipe;

struct LoopParts {
    explicit LoopParts(const Recipe& recipe, RecipeData data = small_data())
        : plan(plan_training(recipe, std::move(data), nullptr, /*resumes=*/false, std::make_shared<Group>())),
          ranks(*plan.group, plan.mesh, recipe.data.bad_samples),
          loop(plan, recorder, ranks, OptimizerKernel::fused) {}

    TrainPlan plan;
    RunRecorder recorder;  // without a folder
    RankSync ranks;
    TrainLoop loop;
};

TEST(TrainLoop, TrainsAllEpochs) {
    LoopParts parts(small_recipe(kEpochs));
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
    EXPECT_EQ(parts.loop.validate(nullptr, nullptr)->loss, *epochs.back().val_loss);
    EXPECT_FALSE(parts.loop.validate([] { return true; }, nullptr)) << "stopped after its first batch";
}

TEST(TrainLoop, ContinuesAfterAnInterrupt) {
    LoopParts whole(small_recipe(kEpochs));
    EXPECT_TRUE(whole.loop.run({}));
    LoopParts parts(small_recipe(kEpochs));
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
    LoopParts parts(recipe);
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

using Json = nlohmann::json;

// The records of one type that a trainer writes.
std::vector<Json> records_of(const std::string& type, Trainer& trainer, FitOptions options = {}) {
    std::vector<Json> found;
    options.on_record = [&](const std::string& lines) {
        std::istringstream in(lines);
        for (std::string line; std::getline(in, line);) {
            if (Json json = Json::parse(line); json["type"] == type) {
                found.push_back(std::move(json));
            }
        }
    };
    trainer.fit(options);
    return found;
}

// Steps in intervals, which must follow each other.
std::int64_t steps_in(const std::vector<Json>& intervals) {
    std::int64_t last = 0;
    for (const Json& interval : intervals) {
        EXPECT_EQ(interval["first_step"], last + 1);
        last = interval["last_step"];
    }
    return last;
}

TEST(TrainLoop, EveryStepIsInAnInterval) {
    constexpr std::int64_t kLong = 1600;  // 100 steps an epoch: the losses are read after the last one
    Trainer trainer(small_recipe(2), {std::make_shared<testing::SquareDataset>(kLong), nullptr});
    const std::vector<Json> intervals = records_of("interval", trainer);
    EXPECT_EQ(steps_in(intervals), 200);
    std::int64_t reads = 0;
    for (const Json& interval : intervals) {
        reads += interval["syncs"][0]["count"].get<std::int64_t>();
    }
    EXPECT_EQ(reads, 4) << "each read of the losses waits";
}

TEST(TrainLoop, AFailureLeavesTheRecordsOfItsSteps) {
    Trainer trainer(small_recipe(1), {small_data().train, nullptr});
    std::map<std::string, int> lines;
    FitOptions options;
    options.on_record = [&](const std::string& text) {
        std::istringstream in(text);
        for (std::string line; std::getline(in, line);) {
            ++lines[Json::parse(line)["type"].get<std::string>()];
        }
    };
    options.on_step = [](const Progress& at) {
        if (at.batch == 5) {
            throw std::runtime_error("a test's failure");
        }
    };
    EXPECT_THROW(trainer.fit(options), std::exception);
    EXPECT_EQ(lines["step"], 5);
    EXPECT_EQ(lines["interval"], 1);
}

TEST(TrainLoop, AStopEndsTheInterval) {
    const testing::TempDir folder;
    Trainer trainer(small_recipe(2), {std::make_shared<testing::SquareDataset>(1600), nullptr});
    std::atomic<int> interrupt = 0;
    std::int64_t steps = 0;
    FitOptions options{.out = folder / "run", .interrupt = &interrupt};
    options.on_step = [&](const Progress&) { interrupt = ++steps == 70 ? 15 : 0; };
    EXPECT_EQ(steps_in(records_of("interval", trainer, options)), 70);
}

TEST(TrainLoop, FactsFollowTheFormOfTheStep) {
    auto model = std::make_unique<testing::LinearModel>();
    bool full = false;
    model->before_forward = [&] {
        if (std::exchange(full, false)) {
            C10_THROW_ERROR(OutOfMemoryError, "a test's memory is full");
        }
    };
    Trainer trainer(small_recipe(1), {small_data().train, nullptr}, std::move(model));
    full = true;  // after the checks before training
    const std::vector<Json> facts = records_of("facts", trainer);
    ASSERT_EQ(facts.size(), 2u);
    EXPECT_EQ(facts[0]["train"]["model"], "own") << "not the recipe's";
    EXPECT_EQ(facts[0]["train"]["accumulate"], 1);
    EXPECT_EQ(facts[1]["train"]["accumulate"], 2);
    EXPECT_EQ(facts[1]["data"], facts[0]["data"]);
}

TEST(TrainLoop, AnEvaluationsWorkersWaitNoLongerThanItLasts) {
    const auto slow = std::make_shared<testing::SquareDataset>(100);
    slow->before_read = [](std::int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(3)); };
    const auto many = std::make_shared<testing::SquareDataset>(400, 2);  // more than the loader prefetches
    many->before_read = [](std::int64_t) { std::this_thread::sleep_for(std::chrono::microseconds(200)); };
    Trainer trainer(small_recipe(1), {slow, many});
    const std::vector<Json> evaluations = records_of("evaluation", trainer);
    ASSERT_EQ(evaluations.size(), 1u);
    double lasted = 0;
    for (const auto& [phase, us] : evaluations[0]["us"].items()) {
        lasted += us.get<double>();
    }
    EXPECT_LE(evaluations[0]["workers_us"]["blocked"].get<double>(), lasted);
}

}  // namespace
}  // namespace stoker

// Predictions from made-up costs with known answers.
#include "stoker/diagnose/prediction.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

// Two cores; a sample takes the loader 10 ms of CPU, the step 4 ms on one thread and 2 ms on two.
Costs two_cores() {
    return {.cores = 2,
            .step = {{.threads = 1, .seconds = 0.004, .cpu_seconds = 0.004},
                     {.threads = 2, .seconds = 0.002, .cpu_seconds = 0.004}},
            .load = {{.workers = 1, .seconds = 0.010, .cpu_seconds = 0.010},
                     {.workers = 2, .seconds = 0.005, .cpu_seconds = 0.010}}};
}

TEST(Predict, WithoutWorkersTheTimesAddUp) {
    EXPECT_NEAR(predict_rate(two_cores(), {.workers = 0, .threads = 1}), 1 / 0.014, 1e-6);
    EXPECT_NEAR(predict_rate(two_cores(), {.workers = 0, .threads = 2}), 1 / 0.012, 1e-6);
}

TEST(Predict, OneWorkerIsTheLoadersRate) {
    EXPECT_NEAR(predict_rate(two_cores(), {.workers = 1, .threads = 1}), 100, 1e-6);
}

TEST(Predict, OnACpuBothShareTheCores) {
    EXPECT_NEAR(predict_rate(two_cores(), {.workers = 2, .threads = 2}), 2 / 0.014, 1e-6);
    EXPECT_NEAR(predict_rate(two_cores(), {.workers = 8, .threads = 2}), 2 / 0.014, 1e-6);
}

TEST(Predict, OnAGpuTheyOverlap) {
    Costs costs = two_cores();
    costs.on_device = true;
    EXPECT_NEAR(predict_rate(costs, {.workers = 2, .threads = 2}), 200, 1e-6);
    costs.step = {{.threads = 1, .seconds = 0.008, .cpu_seconds = 0.001}};
    EXPECT_NEAR(predict_rate(costs, {.workers = 2, .threads = 1}), 125, 1e-6);
}

TEST(Predict, ThreadsFollowAmdahl) {
    Costs costs = two_cores();
    costs.cores = 4;
    costs.step = {{.threads = 1, .seconds = 0.004, .cpu_seconds = 0.004},
                  {.threads = 4, .seconds = 0.0025, .cpu_seconds = 0.006}};
    // 2 ms do not scale and 2 ms do.
    EXPECT_NEAR(step_rate(costs, 2), 1 / 0.003, 1e-6);
    EXPECT_NEAR(step_rate(costs, 4), 1 / 0.0025, 1e-6);
}

TEST(Predict, MoreWorkersHelpBeyondTheCoresOnlyWhereTheyWait) {
    Costs waiting = two_cores();
    waiting.load = {{.workers = 1, .seconds = 0.010, .cpu_seconds = 0.001},
                    {.workers = 2, .seconds = 0.005, .cpu_seconds = 0.001}};
    EXPECT_NEAR(load_rate(waiting, 4), 400, 1e-6);
    EXPECT_NEAR(load_rate(two_cores(), 4), 200, 1e-6);
}

TEST(Predict, StorageIsALimit) {
    Costs costs = two_cores();
    costs.fetch = {{.threads = 1, .rate = 20}, {.threads = 4, .rate = 80}};
    EXPECT_NEAR(predict_rate(costs, {.workers = 1, .threads = 2}), 20, 1e-6);
    EXPECT_NEAR(predict_rate(costs, {.workers = 2, .threads = 2}), 40, 1e-6);
}

TEST(Predict, AGainIsTheRatioOfTheRates) {
    const Costs costs = two_cores();
    Costs cached = costs;
    cached.load = {{.workers = 1, .seconds = 0.001, .cpu_seconds = 0.001}};
    EXPECT_NEAR(predict_gain(costs, {.workers = 0, .threads = 2}, costs, {.workers = 1, .threads = 2}), 1.2, 1e-6);
    EXPECT_NEAR(predict_gain(costs, {.workers = 0, .threads = 2}, cached, {.workers = 0, .threads = 2}), 4, 1e-6);
}

}  // namespace
}  // namespace stoker

// The schedules; one_cycle compared with the output of torch.optim.lr_scheduler.OneCycleLR (PyTorch 2.11,
// cycle_momentum=False).
#include "stoker/train/step/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace stoker {
namespace {

struct Reference {
    double lr;
    std::int64_t total;
    double pct_start;
    double div_factor;
    double final_div_factor;
    std::vector<double> rates;
};

const Reference kRuns[] = {
    {0.1, 1, 0.3, 25, 1e4, {4e-07}},
    {0.1, 2, 0.3, 25, 1e4, {0.0811745653949763, 4e-07}},
    {0.1, 3, 0.3, 25, 1e4, {0.09944154354509119, 0.046263710266697504, 4e-07}},
    {0.1,
     5,
     0.3,
     25,
     1e4,
     {0.0040000000000000036, 0.09504846320134738, 0.06112620219362893, 0.0188258346050237, 4e-07}},
    {0.1,
     10,
     0.3,
     25,
     1e4,
     {0.0040000000000000036, 0.052000000000000005, 0.1, 0.09504846320134738, 0.0811745653949763, 0.06112620219362893,
      0.03887419780637107, 0.0188258346050237, 0.004951936798652629, 4e-07}},
    {0.003,
     7,
     0.5,
     10,
     100,
     {0.0002999999999999999, 0.001232827057593821, 0.002742172942406179, 0.002851601848551775, 0.001834947619533537,
      0.0005672005319146879, 3e-06}},
    {0.4,
     8,
     0.05,
     4,
     2,
     {0.3946450465393828, 0.3630995891443689, 0.3082907937814879, 0.2394513854576582, 0.16817759288918044,
      0.10647572496549536, 0.06473966783536494, 0.05}},
};

TEST(OneCycle, EqualsPyTorchs) {
    for (const Reference& run : kRuns) {
        const ScheduleRecipe schedule{.name = "one_cycle",
                                      .pct_start = run.pct_start,
                                      .div_factor = run.div_factor,
                                      .final_div_factor = run.final_div_factor};
        for (std::size_t i = 0; i < run.rates.size(); ++i) {
            EXPECT_NEAR(learning_rate(schedule, run.lr, {.step = static_cast<std::int64_t>(i), .total = run.total}),
                        run.rates[i], 1e-15 + 1e-12 * run.rates[i])
                << "step " << i << " of " << run.total;
        }
    }
}

TEST(OneCycle, EqualsPyTorchsOverALongRun) {
    const ScheduleRecipe schedule{.name = "one_cycle"};
    const std::pair<std::int64_t, double> rates[] = {
        {0, 0.0040000000000000036}, {1, 0.004000119822993448},   {700, 0.05167824612076259},     {1406, 0.1},
        {1407, 0.0999999771073421}, {3000, 0.05227211097364917}, {4688, 4.2289265789731944e-07}, {4689, 4e-07}};
    for (const auto& [step, rate] : rates) {
        EXPECT_NEAR(learning_rate(schedule, 0.1, {.step = step, .total = 4690}), rate, 1e-15 + 1e-12 * rate) << step;
    }
}

TEST(OneCycle, StaysAtItsEndBeyondTheLastStep) {
    const ScheduleRecipe schedule{.name = "one_cycle"};
    EXPECT_EQ(learning_rate(schedule, 0.1, {.step = 25, .total = 10}),
              learning_rate(schedule, 0.1, {.step = 9, .total = 10}));
}

TEST(OneCycle, MayPeakAtTheFirstStep) {
    const ScheduleRecipe schedule{.name = "one_cycle", .pct_start = 0.25};  // 0.25 * 4 - 1 = 0
    EXPECT_EQ(learning_rate(schedule, 0.1, {.step = 0, .total = 4}), 0.1);
    EXPECT_LT(learning_rate(schedule, 0.1, {.step = 1, .total = 4}), 0.1);
}

TEST(Constant, IsConstant) {
    for (const std::int64_t step : {0, 1, 99}) {
        EXPECT_EQ(learning_rate({.name = "constant"}, 0.02, {.step = step, .total = 100}), 0.02);
    }
}

TEST(Plateau, ReducesAfterPatienceRunsOut) {
    const ScheduleRecipe schedule{.name = "plateau", .patience = 2};
    const StepPosition place{.step = 70, .total = 100, .steps_per_epoch = 10};
    const auto after = [&](const std::vector<double>& losses) { return learning_rate(schedule, 1, place, losses); };
    EXPECT_EQ(after({}), 1);
    EXPECT_EQ(after({3, 2, 2, 2}), 1);
    EXPECT_DOUBLE_EQ(after({3, 2, 2, 2, 2}), 0.1);
    EXPECT_DOUBLE_EQ(after({3, 2, 2, 2, 2, 1, 1, 1, 1}), 0.01);
    EXPECT_DOUBLE_EQ(after({1, std::nan(""), std::nan(""), std::nan("")}), 0.1);
    EXPECT_DOUBLE_EQ(after({1, 0.99995, 0.9999, 0.99995}), 0.1);  // better, but by less than the threshold
}

TEST(WarmUp, RisesAndThenLeavesTheSchedule) {
    ScheduleRecipe schedule{.name = "linear", .warmup = {.count = 2}, .warmup_factor = 0.1};
    const auto at = [&](std::int64_t step) {
        return learning_rate(schedule, 10, {.step = step, .total = 12, .steps_per_epoch = 2});
    };
    EXPECT_DOUBLE_EQ(at(0), 1);
    EXPECT_DOUBLE_EQ(at(2), 5.5);
    EXPECT_DOUBLE_EQ(at(4), 10);
    EXPECT_DOUBLE_EQ(at(8), 5);
    schedule.warmup = {.count = 100, .epochs = false};  // longer than the run
    EXPECT_LT(at(11), 10);
    EXPECT_GT(at(11), at(10));
}

}  // namespace
}  // namespace stoker

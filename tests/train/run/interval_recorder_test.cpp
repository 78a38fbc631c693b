// Intervals sum what happened between two readings of the counters, and each begins anew.
#include "stoker/train/run/interval_recorder.h"

#include <gtest/gtest.h>

#include "train/support.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;

StepResult step_of(std::int64_t number, std::chrono::nanoseconds time) {
    StepResult step{.step = number, .record = {}};
    step.record.times[static_cast<std::size_t>(Phase::forward)] = time;
    return step;
}

TEST(IntervalRecorder, SumsTheWaitsOfAnInterval) {
    const TrainPlan plan = plan_training(testing::small_recipe(1), testing::small_data(), nullptr, /*resumes=*/false,
                                         std::make_shared<Group>());
    DeviceReading reading;
    IntervalRecorder recorder(*plan.train_loader, [&] { return reading; });
    recorder.begin();
    const StepResult first = step_of(1, 100ms);
    EXPECT_FALSE(recorder.add({&first, 1}, 1ms, /*last=*/false)) << "too short for its counters";
    const StepResult second = step_of(2, 200ms);
    const auto whole = recorder.add({&second, 1}, 2ms, /*last=*/false);
    ASSERT_TRUE(whole);
    EXPECT_EQ(whole->first_step, 1);
    ASSERT_EQ(whole->syncs.size(), 1u);
    EXPECT_EQ(whole->syncs[0].count, 2);
    EXPECT_EQ(whole->syncs[0].us, 3000);
    EXPECT_EQ(whole->device_bytes, std::nullopt);

    EXPECT_EQ(whole->core_wait_us.has_value(), thread_core_wait_ns().has_value());
    EXPECT_EQ(whole->gpu_clock_share, std::nullopt);
    EXPECT_EQ(whole->gpu_clock_limit, "");

    reading.peak_bytes = 1 << 20;
    reading.clocks =
        GpuCounters{.celsius = 88, .sm_mhz = 1200, .sm_max_mhz = 1600, .clock_reasons = 0x27};  // idle, set by a user
    const StepResult third = step_of(3, 1ms);
    EXPECT_FALSE(recorder.add({&third, 1}, 4ms, /*last=*/false));
    const auto rest = recorder.add({}, 0ms, /*last=*/true);
    ASSERT_TRUE(rest) << "no step follows at the end of an epoch";
    EXPECT_EQ(rest->first_step, 3);
    EXPECT_EQ(rest->syncs.at(0).count, 1);
    EXPECT_EQ(rest->syncs.at(0).us, 4000);
    EXPECT_EQ(rest->device_bytes, 1 << 20);
    EXPECT_EQ(rest->gpu_celsius, 88);
    EXPECT_EQ(rest->gpu_clock_share, 0.75);
    EXPECT_EQ(rest->gpu_clock_limit, "power limit, temperature");
    EXPECT_FALSE(recorder.add({}, 0ms, /*last=*/true)) << "no step since";
}

// A read of losses is in the record of the step after it, or after the last step of an epoch in none.
TEST(IntervalRecorder, TellsTheWaitsThatNoStepHolds) {
    const TrainPlan plan = plan_training(testing::small_recipe(1), testing::small_data(), nullptr, /*resumes=*/false,
                                         std::make_shared<Group>());
    const std::int64_t epoch = plan.train_loader->batches_per_epoch();
    ASSERT_GT(epoch, 1);
    IntervalRecorder recorder(*plan.train_loader, [] { return DeviceReading{}; });
    recorder.begin();
    const StepResult before = step_of(epoch - 1, 100ms);
    const StepResult end = step_of(epoch, 100ms);
    const StepResult next = step_of(epoch + 1, 100ms);
    EXPECT_FALSE(recorder.add({&before, 1}, 1ms, /*last=*/false));
    EXPECT_FALSE(recorder.add({&end, 1}, 2ms, /*last=*/false));
    EXPECT_FALSE(recorder.add({}, 0ms, /*last=*/false));
    recorder.begin();
    const auto interval = recorder.add({&next, 1}, 4ms, /*last=*/false);
    ASSERT_TRUE(interval);
    EXPECT_EQ(interval->syncs.at(0).us, 7000);
    EXPECT_EQ(interval->after_us, 2000);
    EXPECT_FALSE(recorder.add({&next, 1}, 1ms, /*last=*/false));
    const StepResult stopped = step_of(epoch + 2, 1ms);
    EXPECT_EQ(recorder.add({&stopped, 1}, 8ms, /*last=*/true)->after_us, 8000);
}

TEST(IntervalRecorder, ShortEpochsShareAnInterval) {
    const TrainPlan plan = plan_training(testing::small_recipe(1), testing::small_data(), nullptr, /*resumes=*/false,
                                         std::make_shared<Group>());
    IntervalRecorder recorder(*plan.train_loader, [] { return DeviceReading{}; });
    for (int epoch = 1; epoch <= 3; ++epoch) {
        recorder.begin();
        const StepResult step = step_of(epoch, 100ms);
        const auto interval = recorder.add({&step, 1}, 0ms, /*last=*/false);
        ASSERT_EQ(interval.has_value(), epoch == 3);
        if (interval) {
            EXPECT_EQ(interval->first_step, 1);
            EXPECT_TRUE(interval->rss_bytes) << "long enough for the host's counters";
        }
    }
}

}  // namespace
}  // namespace stoker

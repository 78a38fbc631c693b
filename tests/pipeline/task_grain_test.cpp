// How many samples a worker takes at a time: more where tasks are short, fewer again where they are long.
#include "stoker/pipeline/ring.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

namespace stoker {
namespace {

using std::chrono::microseconds;

TEST(TaskGrain, BeginsWithAPartForEachWorker) {
    EXPECT_EQ(TaskGrain::least_for(64, 4), 4);
    EXPECT_EQ(TaskGrain::least_for(64, 100), 1);
    EXPECT_EQ(TaskGrain::least_for(4096, 2), 32);
    EXPECT_EQ(TaskGrain::least_for(64, 0), 16);
}

TEST(TaskGrain, DoublesForShortTasksAndHalvesForLongOnes) {
    TaskGrain grain(4);
    grain.adapt(4, 24, microseconds(19));
    EXPECT_EQ(grain.samples(), 8);
    grain.adapt(4, 24, microseconds(1));
    EXPECT_EQ(grain.samples(), 8) << "the rest of a batch says nothing";
    grain.adapt(8, 24, microseconds(100));
    EXPECT_EQ(grain.samples(), 8);
    grain.adapt(8, 24, microseconds(1));
    grain.adapt(16, 24, microseconds(1));
    EXPECT_EQ(grain.samples(), 24) << "no more than a batch";
    grain.adapt(24, 24, microseconds(1));
    EXPECT_EQ(grain.samples(), 24);
    grain.adapt(3, 24, microseconds(201));
    EXPECT_EQ(grain.samples(), 12);
    grain.adapt(24, 24, microseconds(300));
    EXPECT_EQ(grain.samples(), 12) << "a task from before";
    grain.adapt(12, 24, microseconds(300));
    grain.adapt(6, 24, microseconds(300));
    EXPECT_EQ(grain.samples(), 4) << "no fewer than at first";
}

TEST(TaskGrain, IsTheRings) {
    const auto ring = std::make_shared<BatchRing>(
        [] {
            return std::make_unique<Batch>(std::vector<FieldSpec>{{.name = "v", .dtype = DType::int64}}, 16,
                                           host_allocator());
        },
        [](Batch& batch, std::int64_t number) { batch.reset(0, number, 16); }, 0, 100);
    ring->set_depth(100);
    ring->set_grain(2);
    const auto samples = [](const RingTask& task) { return task.end - task.begin; };
    RingTask task = *ring->try_take();
    EXPECT_EQ(samples(task), 2);
    ring->complete(task, nullptr, -1, microseconds(1));
    task = *ring->try_take();
    EXPECT_EQ(samples(task), 4);
    ring->complete(task, std::make_exception_ptr(1), task.begin, microseconds(1));
    task = *ring->try_take();
    EXPECT_EQ(samples(task), 4) << "a task that failed may have ended early";
    ring->complete(task, nullptr, -1, microseconds(1000));
    task = *ring->try_take();
    EXPECT_EQ(samples(task), 2);
    ring->complete(task);
    EXPECT_EQ(samples(*ring->try_take()), 2) << "without a time nothing changes";
}

}  // namespace
}  // namespace stoker

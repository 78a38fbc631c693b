// How many samples a worker takes at a time: more where they are prepared so fast that taking them costs as much.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "pipeline/pixel_source.h"
#include "stoker/pipeline/loader.h"
#include "stoker/pipeline/work_log.h"

namespace stoker {
namespace {

// Takes batches until a task has between `least` and `most` samples; false if none of 5,000 batches has one.
bool sees_task(Loader& loader, WorkLog& log, std::int64_t least, std::int64_t most) {
    for (int i = 0; i < 5000; ++i) {
        loader.next();
        if (std::ranges::any_of(log.take_spans(), [&](const WorkSpan& span) {
                return span.end - span.begin >= least && span.end - span.begin <= most;
            })) {
            return true;
        }
    }
    return false;
}

TEST(LoaderTasks, GrowWhereTheyAreShortAndShrinkWhereTheyAreLong) {
    std::atomic<int> microseconds = 0;
    const auto source = std::make_shared<testing::PixelDataset>(640);
    source->delay = [&](std::int64_t) { return std::chrono::microseconds(microseconds.load()); };
    Loader loader(source, Transform(), {.batch_size = 64, .workers = 4});
    const auto log = std::make_shared<WorkLog>();
    loader.set_log(log);
    EXPECT_TRUE(sees_task(loader, *log, 16, 64)) << "tasks begin with 4 samples";
    microseconds = 200;
    EXPECT_TRUE(sees_task(loader, *log, 4, 4));
    microseconds = 0;
    EXPECT_TRUE(sees_task(loader, *log, 16, 64)) << "and grow again";
}

}  // namespace
}  // namespace stoker

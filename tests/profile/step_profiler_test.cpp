// Which steps are recorded, and the ranges around them.
#include "stoker/profile/step_profiler.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "pipeline/pixel_source.h"
#include "profile/made_profile.h"
#include "stoker/profile/event_tree.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;

TEST(ProfileSchedule, IsTorchProfilersSchedule) {
    const ProfileSchedule schedule{.wait = 2, .warmup = 1, .active = 2, .repeat = 2};
    std::string actions;
    for (std::int64_t step = 0; step < 12; ++step) {
        actions += "nwr"[static_cast<int>(schedule.at(step))];
    }
    EXPECT_EQ(actions, "nnwrrnnwrrnn");
    EXPECT_EQ(schedule.steps(), 10);
}

class Steps : public ::testing::Test {
  protected:
    // A run of `steps` steps, as the loop of a trainer makes them.
    Profile run(const ProfileSchedule& schedule, std::int64_t steps, int workers = 2) {
        Loader loader(std::make_shared<stoker::testing::PixelDataset>(64), Transform(),
                      {.batch_size = 8, .workers = workers});
        StepProfiler profiler(account_, loader, {.schedule = schedule, .optimizer = "Adam", .most_ops = most_ops_});
        profiler.begin();
        for (std::int64_t step = 0; step < steps; ++step) {
            std::shared_ptr<Batch> batch;
            {
                const PhaseSpan wait(account_, Phase::wait);
                batch = loader.next();
                batch = batch == nullptr ? loader.next() : batch;
            }
            {
                const PhaseSpan forward(account_, Phase::forward);
                at::mm(at::ones({4, 4}), at::ones({4, 4}));
            }
            { const PhaseSpan optimizer(account_, Phase::optimizer); }
            done_ = profiler.step_done();
            if (done_) {
                break;
            }
        }
        return profiler.finish();
    }

    static std::multiset<std::string> ranges(const Profile& profile) {
        std::multiset<std::string> names;
        for (const ProfileEvent& event : profile.events) {
            if (event.kind == ProfiledKind::range) {
                names.insert(event.name);
            }
        }
        return names;
    }

    Account account_;
    bool done_ = false;
    std::int64_t most_ops_ = kMostRecordedOps;
};

TEST_F(Steps, RecordsTheActiveStepsWithTheirPhases) {
    const Profile profile = run({.wait = 1, .warmup = 1, .active = 2, .repeat = 1}, 4);
    EXPECT_TRUE(done_);
    EXPECT_THAT(ranges(profile),
                ElementsAre("Optimizer.step#Adam.step", "Optimizer.step#Adam.step", "ProfilerStep#3", "ProfilerStep#4",
                            "forward", "forward", "optimizer", "optimizer", "wait", "wait"));
    ASSERT_EQ(profile.windows.size(), 1U);
    EXPECT_EQ(profile.windows[0].first_step, 3);
    EXPECT_EQ(profile.windows[0].last_step, 4);
    const std::vector<EventNode> nodes = event_tree(profile);
    int multiplied = 0;
    for (const EventNode& node : nodes) {
        if (profile.events[node.event].name == "aten::mm") {
            ++multiplied;
            const EventNode& forward = nodes.at(static_cast<std::size_t>(node.parent));
            EXPECT_EQ(profile.events[forward.event].name, "forward");
            const EventNode& step = nodes.at(static_cast<std::size_t>(forward.parent));
            EXPECT_THAT(profile.events[step.event].name, ::testing::StartsWith("ProfilerStep#"));
        }
    }
    EXPECT_EQ(multiplied, 2);
    const auto loads = std::ranges::count(profile.events, "enumerate(DataLoader)#Loader.__next__", &ProfileEvent::name);
    EXPECT_EQ(loads, 2);
}

TEST_F(Steps, EachRepetitionIsAWindow) {
    const Profile profile = run({.wait = 1, .warmup = 0, .active = 1, .repeat = 2}, 4);
    EXPECT_TRUE(done_);
    ASSERT_EQ(profile.windows.size(), 2U);
    EXPECT_EQ(profile.windows[0].first_step, 2);
    EXPECT_EQ(profile.windows[1].last_step, 4);
    EXPECT_EQ(ranges(profile).count("ProfilerStep#2"), 1U);
    EXPECT_EQ(ranges(profile).count("ProfilerStep#4"), 1U);
    EXPECT_EQ(ranges(profile).count("forward"), 2U);
}

TEST_F(Steps, WindowsThatFollowEachOtherStaySeparate) {
    const Profile profile = run({.wait = 0, .warmup = 0, .active = 1, .repeat = 2}, 2);
    EXPECT_EQ(profile.windows.size(), 2U);
    EXPECT_EQ(ranges(profile).count("forward"), 2U);
}

TEST_F(Steps, ARunThatEndsEarlyKeepsWhatWasRecorded) {
    const Profile profile = run({.wait = 0, .warmup = 0, .active = 10, .repeat = 1}, 3);
    EXPECT_FALSE(done_);
    ASSERT_EQ(profile.windows.size(), 1U);
    EXPECT_EQ(profile.windows[0].last_step, 3);
    EXPECT_EQ(ranges(profile).count("forward"), 3U);
}

TEST_F(Steps, AStepThatWasNotDoneIsNoStep) {
    const Profile profile = run({.wait = 0, .warmup = 0, .active = 10, .repeat = 1}, 3);
    EXPECT_EQ(ranges(profile).count("ProfilerStep#3"), 1U);
    EXPECT_EQ(ranges(profile).count("ProfilerStep#4"), 0U);
    EXPECT_TRUE(run({.wait = 2, .warmup = 0, .active = 10, .repeat = 1}, 2).windows.empty());
}

// The host runs ahead: kernels of a finished step run while the host is in a later one.
TEST(DropEvents, KernelsStayWithWhatLaunchedThem) {
    Profile profile;
    profile.events = {made_event(ProfiledKind::op, "aten::mm", 0, 10, 1),
                      made_event(ProfiledKind::runtime, "cudaLaunchKernel", 5, 6, 1001),
                      made_event(ProfiledKind::op, "aten::mm", 100, 110, 2),
                      made_event(ProfiledKind::runtime, "cudaLaunchKernel", 105, 106, 1002),
                      made_event(ProfiledKind::kernel, "early", 150, 160, 1001),
                      made_event(ProfiledKind::fill, "early, by its op", 160, 161, 0),
                      made_event(ProfiledKind::kernel, "late", 170, 180, 1002),
                      made_event(ProfiledKind::kernel, "unknown before", 20, 30, 7),
                      made_event(ProfiledKind::kernel, "unknown after", 190, 195, 8)};
    profile.events[5].op = 1;
    profile.memory = {{.at_ns = kZero}, {.at_ns = kZero + 100'000}};
    drop_events_since(kZero + 100'000, profile);
    std::vector<std::string> names;
    for (const ProfileEvent& event : profile.events) {
        names.push_back(event.name);
    }
    EXPECT_THAT(names, ElementsAre("aten::mm", "cudaLaunchKernel", "early", "early, by its op", "unknown before"));
    EXPECT_EQ(profile.memory.size(), 1U);
}

TEST_F(Steps, ARecordingEndsWhenItHasEnoughOps) {
    most_ops_ = 30;
    const Profile profile = run({.wait = 0, .warmup = 0, .active = 1000, .repeat = 1}, 1000);
    EXPECT_TRUE(done_);
    EXPECT_TRUE(profile.full);
    ASSERT_EQ(profile.windows.size(), 1U);
    EXPECT_GE(profile.windows[0].last_step, 2);
    EXPECT_LE(profile.windows[0].last_step, 10);
    EXPECT_EQ(std::ssize(ranges(profile)), profile.windows[0].last_step * 5);  // step, wait, forward, optimizer twice
}

TEST_F(Steps, TheLoadersWorkLiesInTheWindow) {
    for (const int workers : {0, 2}) {
        const Profile profile = run({.wait = 0, .warmup = 0, .active = 4, .repeat = 1}, 4, workers);
        ASSERT_FALSE(profile.work.empty()) << workers << " workers";
        const ProfileWindow& window = profile.windows.front();
        constexpr std::int64_t kClocks = 5'000'000;  // two clocks, read one after the other
        for (const WorkSpan& span : profile.work) {
            EXPECT_GE(profile.ns(span.began), window.begin_ns - kClocks);
            EXPECT_LE(profile.ns(span.began), window.end_ns + kClocks);
            EXPECT_EQ(span.worker == WorkSpan::kTrainingThread, workers == 0);
            EXPECT_EQ(span.times.samples, span.end - span.begin);
        }
        EXPECT_FALSE(profile.ring.empty());
        EXPECT_TRUE(std::ranges::is_sorted(profile.ring, {}, &RingLevel::at));
    }
}

}  // namespace
}  // namespace stoker

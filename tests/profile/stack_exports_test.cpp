// Call stacks for other tools, against the made profile's times.
#include "stoker/profile/stack_exports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "profile/made_profile.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

std::vector<ThreadStacks> stacks_of(const Profile& profile) {
    return thread_stacks(profile, event_tree(profile));
}

TEST(StackExports, CollapsedStacksHaveTheTimeOfEachFrameItself) {
    EXPECT_EQ(collapsed_stacks(stacks_of(made_profile())),
              "training thread;wait;enumerate(DataLoader)#Loader.__next__ 500\n"
              "training thread;forward 70\n"
              "training thread;forward;aten::linear 90\n"
              "training thread;forward;aten::linear;aten::addmm 200\n"
              "training thread;forward;aten::relu 40\n");
}

TEST(StackExports, TheSameStackInTwoStepsIsOneLine) {
    Profile profile = made_profile();
    const std::size_t once = profile.events.size();
    for (std::size_t i = 0; i < once; ++i) {
        ProfileEvent again = profile.events[i];
        again.start_ns += 1'000'000;
        again.end_ns += 1'000'000;
        again.name = again.name == "ProfilerStep#1" ? "ProfilerStep#2" : again.name;
        profile.events.push_back(again);
    }
    EXPECT_THAT(collapsed_stacks(stacks_of(profile)), ::testing::HasSubstr("forward;aten::linear;aten::addmm 400\n"));
}

TEST(StackExports, ASemicolonInANameSplitsNoFrame) {
    Profile profile = made_profile();
    profile.events[3].name = "a;b";
    EXPECT_THAT(collapsed_stacks(stacks_of(profile)), ::testing::HasSubstr("training thread;a:b;aten::linear 90\n"));
}

TEST(StackExports, WorkersHaveStacksOfTheirOwn) {
    Profile profile = made_profile();
    WorkSpan span{
        .worker = 1, .began = {}, .ended = std::chrono::steady_clock::time_point(std::chrono::microseconds(90))};
    span.times[Stage::read] = std::chrono::microseconds(30);
    span.times[Stage::augment] = std::chrono::microseconds(40);
    profile.work = {span};
    EXPECT_THAT(collapsed_stacks(stacks_of(profile)),
                ::testing::HasSubstr("worker 1;batch 20\nworker 1;batch;read 30\nworker 1;batch;augment 40\n"));
}

TEST(StackExports, SpeedscopeEventsAreBalancedAndInOrder) {
    const auto json = nlohmann::json::parse(speedscope_json(stacks_of(made_profile()), "digits"));
    EXPECT_EQ(json["$schema"], "https://www.speedscope.app/file-format-schema.json");
    ASSERT_EQ(json["profiles"].size(), 1);
    const auto& profile = json["profiles"][0];
    EXPECT_EQ(profile["type"], "evented");
    EXPECT_EQ(profile["unit"], "microseconds");
    EXPECT_EQ(profile["endValue"], 900);
    std::vector<int> open;
    double now = 0;
    for (const auto& event : profile["events"]) {
        EXPECT_GE(event["at"], now);
        now = event["at"];
        const int frame = event["frame"];
        ASSERT_LT(frame, static_cast<int>(json["shared"]["frames"].size()));
        if (event["type"] == "O") {
            open.push_back(frame);
        } else {
            ASSERT_FALSE(open.empty());
            EXPECT_EQ(open.back(), frame);
            open.pop_back();
        }
    }
    EXPECT_TRUE(open.empty());
    EXPECT_EQ(profile["events"].size(), 12U) << "six frames, each opened and closed";
}

// tests/python/test_profile.py loads the file with pstats.
TEST(StackExports, PstatsIsAMarshalledDictionary) {
    const std::string file = pstats_file(stacks_of(made_profile()));
    EXPECT_EQ(file.front(), '{');
    EXPECT_EQ(file.back(), '0');
    EXPECT_THAT(file, ::testing::HasSubstr("aten::addmm"));
}

TEST(StackExports, PstatsCountsTheCallsOfARecursiveFunction) {
    Profile profile;
    profile.events = {made_event(ProfiledKind::range, "f", 0, 100), made_event(ProfiledKind::op, "g", 10, 90, 1),
                      made_event(ProfiledKind::op, "g", 20, 60, 2), made_event(ProfiledKind::op, "g", 30, 40, 3)};
    const testing::TempDir folder;
    const std::filesystem::path file = folder.path() / "recursive.pstats";
    const std::string bytes = pstats_file(stacks_of(profile));
    std::ofstream(file, std::ios::binary) << bytes;
    // Functions: primitive calls, calls, own and whole seconds. Callers: calls, primitive calls, own and whole seconds.
    const std::string script =
        "import pstats, sys\n"
        "stats = {name: v for (_, _, name), v in pstats.Stats(sys.argv[1]).stats.items()}\n"
        "ms = lambda t: (t[0], t[1], round(t[2] * 1e6), round(t[3] * 1e6))\n"
        "assert ms(stats[\"g\"]) == (1, 3, 80, 80), stats[\"g\"]\n"
        "callers = {name: ms(v) for (_, _, name), v in stats[\"g\"][4].items()}\n"
        "assert callers == {\"f\": (1, 1, 40, 80), \"g\": (2, 0, 40, 0)}, callers\n";
    // NOLINTNEXTLINE(bugprone-command-processor): the test's own script
    EXPECT_EQ(std::system(fmt::format("python3 -c '{}' '{}'", script, file.string()).c_str()), 0);
}

}  // namespace
}  // namespace stoker

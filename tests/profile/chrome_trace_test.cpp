// The trace keeps the conventions that other tools need; tests/python/test_profile.py loads it into those tools.
#include "stoker/profile/chrome_trace.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "profile/made_profile.h"
#include "stoker/profile/trace_lanes.h"

namespace stoker {
namespace {

using Json = nlohmann::json;

Json trace_of(const Profile& profile) {
    return Json::parse(chrome_trace(profile));
}

const Json& find(const Json& trace, const std::string& name, const std::string& phase = "X") {
    for (const Json& event : trace["traceEvents"]) {
        if (event["name"] == name && event["ph"] == phase) {
            return event;
        }
    }
    static const Json kNothing;
    ADD_FAILURE() << "no event " << name;
    return kNothing;
}

// Slices of one thread that overlap without nesting: Perfetto drops them.
std::vector<std::string> overlaps(const Json& trace) {
    std::map<std::pair<int, std::int64_t>, std::vector<std::pair<double, double>>> threads;
    for (const Json& event : trace["traceEvents"]) {
        if (event["ph"] == "X") {
            const double start = event["ts"];
            threads[{event["pid"], event["tid"]}].emplace_back(start, start + event["dur"].get<double>());
        }
    }
    std::vector<std::string> found;
    for (auto& [thread, slices] : threads) {
        for (const auto& a : slices) {
            for (const auto& b : slices) {
                if (a.first < b.first && b.first < a.second && a.second < b.second) {
                    found.push_back(fmt::format("{} {}: {} to {}", thread.first, thread.second, a.second, b.second));
                }
            }
        }
    }
    return found;
}

TEST(ChromeTrace, HasTheHeadOfTorchProfiler) {
    Profile profile = made_profile();
    profile.rank = 3;
    profile.world_size = 4;
    profile.backend = "gloo";
    const std::string text = chrome_trace(profile);
    std::smatch match;
    ASSERT_TRUE(std::regex_search(text, match, std::regex(R"("rank":\s+(\d+))"))) << "HTA's expression";
    EXPECT_EQ(match[1], "3");
    const Json trace = Json::parse(text);
    EXPECT_EQ(trace["schemaVersion"], 1);
    EXPECT_EQ(trace["writer"], "stoker") << "whose recipe `stoker diagnose` advises on";
    EXPECT_EQ(trace["displayTimeUnit"], "ms");
    EXPECT_EQ(trace["baseTimeNanoseconds"], kZero);
    EXPECT_EQ(trace["distributedInfo"], (Json{{"backend", "gloo"}, {"rank", 3}, {"world_size", 4}}));
}

TEST(ChromeTrace, EventsHaveCategoriesTimesAndArguments) {
    const Json trace = trace_of(made_profile());
    const Json& addmm = find(trace, "aten::addmm");
    EXPECT_EQ(addmm["cat"], "cpu_op");
    EXPECT_EQ(addmm["ts"], 550);
    EXPECT_EQ(addmm["dur"], 200);
    EXPECT_EQ(addmm["args"]["Input Dims"], Json::parse("[[128], [64, 784], [784, 128]]"));
    EXPECT_EQ(addmm["args"]["External id"], 3);
    EXPECT_EQ(find(trace, "enumerate(DataLoader)#Loader.__next__")["cat"], "cpu_op");
    EXPECT_EQ(find(trace, "ProfilerStep#1")["cat"], "user_annotation");
    EXPECT_NE(find(trace, "ProfilerStep#1")["tid"], addmm["tid"]) << "ranges have a separate thread";
    const Json& kernel = find(trace, "gemm");
    EXPECT_EQ(kernel["cat"], "kernel");
    EXPECT_EQ(kernel["pid"], 0);
    EXPECT_EQ(kernel["tid"], 7);
    EXPECT_EQ(kernel["args"]["stream"], 7);
    EXPECT_EQ(kernel["args"]["correlation"], 77);
    EXPECT_EQ(kernel["args"]["External id"], 3);
    EXPECT_EQ(find(trace, "cudaLaunchKernel")["cat"], "cuda_runtime");
    EXPECT_EQ(find(trace, "ac2g", "s")["id"], find(trace, "ac2g", "f")["id"]);
    EXPECT_EQ(find(trace, "ac2g", "f")["bp"], "e");
    EXPECT_EQ(find(trace, "[memory]", "i")["args"]["Total Allocated"], 4096);
}

TEST(ChromeTrace, TheDeviceHasItsOwnNumber) {
    Profile profile = made_profile();
    for (ProfileEvent& event : profile.events) {
        event.device = on_device(event.kind) ? 3 : event.device;
    }
    const Json trace = Json::parse(chrome_trace(profile, {.type = "cuda", .name = "NVIDIA H100"}));
    EXPECT_EQ(trace["deviceProperties"][0]["id"], 3);
    EXPECT_EQ(find(trace, "gemm")["pid"], 3);
}

TEST(ChromeTrace, KinetosArgumentsAreKeptIfTheyAreJson) {
    Profile profile = made_profile();
    profile.events[8].metadata = R"("correlation": 77, "stream": 7, "grid": [1, 2, 3], "External id": 3)";
    profile.events[7].metadata = R"("correlation": 77, "broken)";
    const Json trace = trace_of(profile);
    EXPECT_EQ(find(trace, "gemm")["args"]["grid"], Json::parse("[1, 2, 3]"));
    EXPECT_EQ(find(trace, "cudaLaunchKernel")["args"]["correlation"], 77);
}

TEST(ChromeTrace, ForwardAndBackwardAreLinked) {
    Profile profile = made_profile();
    profile.events[4].sequence = 12;
    ProfileEvent backward = made_event(ProfiledKind::op, "AddmmBackward0", 910, 990, 8);
    backward.sequence = 12;
    backward.forward_thread = 1;
    ProfileEvent inner = made_event(ProfiledKind::op, "aten::mm", 920, 930, 9);
    inner.sequence = 12;
    inner.forward_thread = 1;
    profile.events.push_back(backward);
    profile.events.push_back(inner);
    const Json trace = trace_of(profile);
    EXPECT_EQ(find(trace, "fwdbwd", "s")["ts"], 510);
    EXPECT_EQ(find(trace, "fwdbwd", "f")["ts"], 910);
}

TEST(ChromeTrace, WorkersAndTheRingAreInTheTrace) {
    Profile profile = made_profile();
    const std::chrono::steady_clock::time_point zero{};
    profile.steady_offset_ns = kZero;
    WorkSpan span{.worker = 2,
                  .batch = 5,
                  .begin = 8,
                  .end = 16,
                  .began = zero + std::chrono::microseconds(100),
                  .ended = zero + std::chrono::microseconds(180),
                  .ready = 1};
    span.times[Stage::read] = std::chrono::microseconds(20);
    span.times[Stage::pixels] = std::chrono::microseconds(50);
    profile.work = {span};
    profile.ring = {{.at = span.ended, .ready = 1}};
    const Json trace = trace_of(profile);
    const Json& piece = find(trace, "batch 5");
    EXPECT_EQ(piece["ts"], 100);
    EXPECT_EQ(piece["dur"], 80);
    EXPECT_EQ(piece["args"]["items"], 8);
    EXPECT_EQ(find(trace, "read")["tid"], piece["tid"]);
    EXPECT_EQ(find(trace, "pixels")["ts"], 120);
    EXPECT_EQ(find(trace, "batches ready", "C")["args"]["batches"], 1);
    bool named = false;
    for (const Json& event : trace["traceEvents"]) {
        named = named ||
                (event["name"] == "thread_name" && event["tid"] == piece["tid"] && event["args"]["name"] == "worker 2");
    }
    EXPECT_TRUE(named);
}

TEST(ChromeTrace, NothingOverlapsOnAThread) {
    Profile profile = made_profile();
    // An op that ends 30 ns after its caller, a kernel within another's time on one stream, ranges across each other.
    profile.events.push_back(made_event(ProfiledKind::op, "late", 700, 750, 20));
    profile.events.back().end_ns += 30;
    ProfileEvent kernel = made_event(ProfiledKind::kernel, "second", 650, 800, 21);
    kernel.thread = 7;
    profile.events.push_back(kernel);
    profile.events.push_back(made_event(ProfiledKind::range, "crossing", 400, 700));
    const Json trace = trace_of(profile);
    EXPECT_EQ(overlaps(trace), std::vector<std::string>{});
    EXPECT_EQ(find(trace, "second")["dur"], 150) << "moved, not cut";
}

TEST(ChromeTrace, NamesAreEscaped) {
    Profile profile = made_profile();
    profile.events[4].name = "a\"b\\c\n\xff";
    EXPECT_EQ(trace_of(profile)["traceEvents"].empty(), false);
}

TEST(ChromeTrace, KernelsThatOverlapOnAStreamAreNoRanges) {
    Profile profile = made_profile();
    profile.events.push_back(made_event(ProfiledKind::kernel, "other", 660, 740, 78));
    profile.events.back().thread = 7;
    std::vector<std::string> titles;
    const Json trace = trace_of(profile);
    for (const Json& event : trace["traceEvents"]) {
        if (event["name"] == "thread_name" && event["pid"] == 0) {
            titles.push_back(event["args"]["name"]);
        }
    }
    EXPECT_EQ(titles, (std::vector<std::string>{"stream 7", "stream 7"}));
}

TEST(TraceLanes, NestedAndLaterSlicesKeepTheirThread) {
    TraceLanes lanes;
    EXPECT_EQ(lanes.place(1, 5, 0, 10), 5);
    EXPECT_EQ(lanes.place(1, 5, 2, 8), 5);
    EXPECT_NE(lanes.place(1, 5, 7, 12), 5);
    EXPECT_EQ(lanes.place(1, 5, 10, 12), 5);
    EXPECT_EQ(lanes.place(2, 5, 7, 12), 5) << "of another process";
}

}  // namespace
}  // namespace stoker

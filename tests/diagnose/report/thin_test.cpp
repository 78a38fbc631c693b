// Thinning keeps sums and peaks.
#include "stoker/diagnose/report/thin.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <limits>
#include <numeric>
#include <random>

#include "diagnose/report/sample_report.h"
#include "stoker/diagnose/report/operator_table.h"

namespace stoker {
namespace {

TEST(Thin, BarsKeepSumsPeaksAndTheirSteps) {
    std::vector<StepEntry> steps = sample_steps(1003, 5000);
    steps[700].host.times[0] += std::chrono::seconds(9);
    const std::vector<StepBar> bars = step_bars(steps, 120);
    EXPECT_LE(bars.size(), 120U);
    PhaseTimes of_steps{};
    PhaseTimes of_bars{};
    std::int64_t count = 0;
    for (const StepEntry& step : steps) {
        std::ranges::transform(of_steps, step.host.times, of_steps.begin(), std::plus<>());
    }
    for (const StepBar& bar : bars) {
        std::ranges::transform(of_bars, bar.times, of_bars.begin(), std::plus<>());
        EXPECT_EQ(bar.first, count + 1);
        count += bar.count;
        EXPECT_EQ(bar.last, count);
    }
    EXPECT_EQ(of_bars, of_steps);
    EXPECT_EQ(count, 1003);
    const auto highest = std::ranges::max_element(bars, {}, &StepBar::peak);
    EXPECT_EQ(highest->peak_step, 701);
    EXPECT_EQ(highest->peak, steps[700].host.total());
    EXPECT_EQ(std::ranges::min_element(bars, {}, [](const StepBar& bar) { return *bar.ready_min; })->ready_min, 0);
}

TEST(Thin, FewStepsAreABarEach) {
    const std::vector<StepBar> bars = step_bars(sample_steps(7, 100), 120);
    ASSERT_EQ(bars.size(), 7U);
    EXPECT_EQ(bars[6].first, 7);
    EXPECT_EQ(bars[6].count, 1);
    EXPECT_TRUE(step_bars({}, 120).empty());
}

TEST(Thin, CurvesKeepTheirHighestAndLowestPoint) {
    std::vector<MemoryPoint> points;
    std::mt19937 random(3);
    for (int i = 0; i < 10'000; ++i) {
        points.push_back({i * 1.0, static_cast<std::int64_t>(random() % 1000)});
    }
    points[4321].bytes = 1'000'000;
    points[77].bytes = -5;
    const std::vector<MemoryPoint> kept = thinned(points, 600);
    EXPECT_LE(kept.size(), 600U);
    const auto [low, high] = std::ranges::minmax_element(kept, {}, &MemoryPoint::bytes);
    EXPECT_EQ(low->us, 77);
    EXPECT_EQ(high->us, 4321);
    EXPECT_TRUE(std::ranges::is_sorted(kept, {}, &MemoryPoint::us));
    EXPECT_EQ(thinned(std::vector<MemoryPoint>(5000, {7, 9}), 600).size(), 2U) << "all at one time";
}

TEST(Thin, NestedSpansAreRowsByDepth) {
    const std::vector<TimelineSpan> spans = {
        {"b", "inner", 20, 10}, {"b", "outer", 10, 50}, {"a", "only", 0, 5}, {"b", "next", 60, 1}};
    const TimelineRows timeline = timeline_rows(spans, 100);
    ASSERT_EQ(timeline.rows.size(), 3U);
    EXPECT_EQ(timeline.rows[0].lane, "b");
    EXPECT_EQ(timeline.rows[0].boxes[0].name, "outer");
    EXPECT_EQ(timeline.rows[0].boxes[1].name, "next");
    EXPECT_EQ(timeline.rows[1].boxes[0].name, "inner");
    EXPECT_EQ(timeline.rows[1].depth, 1);
    EXPECT_EQ(timeline.rows[2].lane, "a");
}

TEST(Thin, ShortSpansAreJoinedAndLongOnesStay) {
    std::vector<TimelineSpan> spans = {{"a", "long", 500'000, 40'000}};
    for (int i = 0; i < 20'000; ++i) {
        spans.push_back({"a", "short", i * 20.0, 10});
        spans.push_back({"a", "short", 600'000 + i * 20.0, 10});
    }
    const TimelineRows timeline = timeline_rows(spans, 1000);
    ASSERT_EQ(timeline.rows.size(), 1U);
    const std::vector<TimelineBox>& boxes = timeline.rows[0].boxes;
    EXPECT_LE(boxes.size(), 1000U);
    EXPECT_EQ(std::ranges::count(boxes, "long", &TimelineBox::name), 1);
    double busy = 0;
    std::int64_t count = 0;
    for (const TimelineBox& box : boxes) {
        busy += box.busy_us;
        count += box.spans;
    }
    EXPECT_DOUBLE_EQ(busy, 440'000);
    EXPECT_EQ(count, 40'001);
    EXPECT_EQ(timeline.left_out, 0);
}

TEST(Thin, TooManyLanesAndDepthsAreCounted) {
    std::vector<TimelineSpan> spans;
    for (int i = 0; i < kMostLanes + 5; ++i) {
        spans.push_back({"lane " + std::to_string(i), "x", 0, 1});
    }
    for (int i = 0; i < kMostDepth + 3; ++i) {
        spans.push_back({"lane 0", "deep", 10.0 + i, 1000.0 - 2 * i});
    }
    const TimelineRows timeline = timeline_rows(spans, 10);
    EXPECT_EQ(timeline.left_out, 5 + 3);
    EXPECT_EQ(timeline.rows.size(), static_cast<std::size_t>(kMostLanes + kMostDepth - 1));
}

TEST(Thin, FramesKeepTheirCallersTime) {
    FlameFrame root{.name = "root", .value_us = 0};  // less than its callees together: taken as their sum
    for (int i = 0; i < 30'000; ++i) {
        root.children.push_back({.name = "f" + std::to_string(i), .value_us = i % 100 == 0 ? 1000.0 : 0.5});
    }
    const std::vector<FlatFrame> frames = flat_frames({root}, 4000);
    EXPECT_LE(frames.size(), 4000U);
    const double whole = 300 * 1000 + 29'700 * 0.5;
    EXPECT_DOUBLE_EQ(frames[0].value_us, whole);
    double callees = 0;
    for (const FlatFrame& frame : frames) {
        callees += frame.depth == 1 ? frame.value_us : 0;
    }
    EXPECT_DOUBLE_EQ(callees, whole);
    EXPECT_EQ(frames.back().frames, 29'700);
    EXPECT_EQ(frames.back().name, "29700 small frames");
}

TEST(Thin, ADeepStackEnds) {
    FlameFrame deep{.name = "leaf", .value_us = 1};
    for (int i = 0; i < 2000; ++i) {
        FlameFrame caller{.name = "caller", .value_us = 1};
        caller.children.push_back(std::move(deep));
        deep = std::move(caller);
    }
    EXPECT_EQ(flat_frames({deep}, 4000).size(), 160U);
}

TEST(OperatorTable, SumsByKeyAndPutsTheRestInOneRow) {
    const std::vector<OperatorRow> rows = sample_operators();
    const double self = std::transform_reduce(rows.begin(), rows.end(), 0.0, std::plus<>(),
                                              [](const OperatorRow& row) { return row.self_us; });
    for (const auto& [key, count] : {std::pair(OperatorKey::name, 121U), std::pair(OperatorKey::shapes, 240U)}) {
        const OperatorTable table = operator_table(rows, key, 100);
        EXPECT_EQ(table.rows.size(), 100U);
        EXPECT_EQ(table.rest_rows, count - 100);
        double sum = table.rest.self_us;
        for (const OperatorRow& row : table.rows) {
            sum += row.self_us;
        }
        EXPECT_NEAR(sum, self, 1e-6);
        EXPECT_EQ(table.rows[0].place, "");
    }
}

TEST(Thin, FramesWithoutTimesEnd) {
    std::vector<FlameFrame> frames;
    for (int i = 0; i < 100; ++i) {
        frames.push_back({.name = "f", .value_us = 0});
    }
    EXPECT_LE(flat_frames(frames, 10).size(), 10U);
    frames.push_back({.name = "no number", .value_us = std::numeric_limits<double>::quiet_NaN()});
    EXPECT_LE(flat_frames(frames, 10).size(), 10U);
}

}  // namespace
}  // namespace stoker

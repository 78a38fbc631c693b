// Long series made short enough for a page. Sums do not change, nor do the largest and smallest values.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stoker/diagnose/report/html_report.h"
#include "stoker/records/records.h"

namespace stoker {

// Consecutive steps as one bar.
struct StepBar {
    std::int64_t first = 0;  // step numbers, inclusive
    std::int64_t last = 0;
    std::int64_t count = 0;
    PhaseTimes times{};               // sum over the steps
    std::chrono::nanoseconds peak{};  // the longest step's time
    std::int64_t peak_step = 0;
    std::int64_t ready_count = 0;  // steps whose queue occupancy is known
    std::int64_t ready_sum = 0;
    std::optional<int> ready_min = {};
};

// At most `most` bars of equally many steps; the last may have fewer.
std::vector<StepBar> step_bars(std::span<const StepEntry> steps, std::size_t most);

// For each of at most `most` / 2 equal intervals its lowest and its highest point, in the order of time.
std::vector<MemoryPoint> thinned(std::span<const MemoryPoint> points, std::size_t most);

// A rectangle of the timeline: one span, or short neighbours together.
struct TimelineBox {
    std::string name;
    double start_us = 0;
    double duration_us = 0;  // from the first one's start to the last one's end
    double busy_us = 0;      // sum of the spans' durations
    std::int64_t spans = 1;
};

// The spans of one lane that have the same depth, by start.
struct TimelineRow {
    std::string lane;
    int depth = 0;
    std::vector<TimelineBox> boxes = {};
};

struct TimelineRows {
    std::vector<TimelineRow> rows = {};  // by lane, then by depth
    std::int64_t left_out = 0;           // spans beyond kMostLanes or kMostDepth
};

inline constexpr int kMostLanes = 64;
inline constexpr int kMostDepth = 48;

// Joins neighbours of one row, shortest first, until at most `most` boxes (but at least one for each row) are left.
TimelineRows timeline_rows(std::span<const TimelineSpan> spans, std::size_t most);

// A frame of the flame graph, in the order of a walk from callers to callees; depth 0 is without a caller.
struct FlatFrame {
    std::string name;
    int depth = 0;
    double value_us = 0;
    std::int64_t frames = 1;  // more than 1: small frames of one caller together
};

// Joins the smallest callees of each caller until at most `most` frames are left; a caller is at least as large as its
// callees. The largest come first.
std::vector<FlatFrame> flat_frames(const std::vector<FlameFrame>& roots, std::size_t most);

}  // namespace stoker

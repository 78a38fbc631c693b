// Spans of one lane become rows by depth, as nested calls are drawn. Then short neighbours are joined.
#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "stoker/diagnose/report/thin.h"

namespace stoker {
namespace {

double end_of(const TimelineSpan& span) {
    return span.start_us + span.duration_us;
}

// The lanes' spans, in the order in which the lanes appear.
std::vector<std::vector<const TimelineSpan*>> lanes_of(std::span<const TimelineSpan> spans) {
    std::map<std::string_view, std::size_t> index;
    std::vector<std::vector<const TimelineSpan*>> lanes;
    for (const TimelineSpan& span : spans) {
        const auto [lane, is_new] = index.try_emplace(span.lane, lanes.size());
        if (is_new) {
            lanes.emplace_back();
        }
        lanes[lane->second].push_back(&span);
    }
    return lanes;
}

// Sorts `lane` and appends its rows.
void add_rows(std::vector<const TimelineSpan*>& lane, TimelineRows& out) {
    std::ranges::stable_sort(lane, [](const TimelineSpan* a, const TimelineSpan* b) {
        return a->start_us != b->start_us ? a->start_us < b->start_us : a->duration_us > b->duration_us;
    });
    std::vector<TimelineRow> rows;
    std::vector<double> open;  // the ends of the spans around the present one
    for (const TimelineSpan* span : lane) {
        while (!open.empty() && open.back() <= span->start_us) {
            open.pop_back();
        }
        const std::size_t depth = open.size();
        open.push_back(end_of(*span));
        if (depth >= static_cast<std::size_t>(kMostDepth)) {
            ++out.left_out;
            continue;
        }
        if (depth == rows.size()) {
            rows.push_back({.lane = span->lane, .depth = static_cast<int>(depth)});
        }
        rows[depth].boxes.push_back({.name = span->name,
                                     .start_us = span->start_us,
                                     .duration_us = span->duration_us,
                                     .busy_us = span->duration_us});
    }
    std::ranges::move(rows, std::back_inserter(out.rows));
}

// Joins neighbours that are shorter than `least` and less than `least` apart.
void join_shorter_than(double least, std::vector<TimelineBox>& boxes) {
    std::size_t kept = 0;
    bool joinable = false;  // the last box kept consists of such neighbours only
    for (std::size_t i = 0; i < boxes.size(); ++i) {
        TimelineBox& box = boxes[i];
        const bool is_short = box.busy_us / static_cast<double>(box.spans) < least;
        if (kept > 0 && joinable && is_short) {
            TimelineBox& last = boxes[kept - 1];
            const double last_end = last.start_us + last.duration_us;
            if (box.start_us - last_end < least) {
                last.duration_us = std::max(last_end, box.start_us + box.duration_us) - last.start_us;
                last.busy_us += box.busy_us;
                last.spans += box.spans;
                last.name = fmt::format("{} short spans", last.spans);
                continue;
            }
        }
        if (kept != i) {
            boxes[kept] = std::move(box);
        }
        ++kept;
        joinable = is_short;
    }
    boxes.resize(kept);
}

std::size_t count_of(const std::vector<TimelineRow>& rows) {
    std::size_t count = 0;
    for (const TimelineRow& row : rows) {
        count += row.boxes.size();
    }
    return count;
}

}  // namespace

TimelineRows timeline_rows(std::span<const TimelineSpan> spans, std::size_t most) {
    TimelineRows out;
    if (spans.empty()) {
        return out;
    }
    auto lanes = lanes_of(spans);
    for (std::size_t i = 0; i < lanes.size(); ++i) {
        if (i < static_cast<std::size_t>(kMostLanes)) {
            add_rows(lanes[i], out);
        } else {
            out.left_out += static_cast<std::int64_t>(lanes[i].size());
        }
    }
    double start = spans[0].start_us;
    double end = start;
    for (const TimelineSpan& span : spans) {
        start = std::min(start, span.start_us);
        end = std::max(end, end_of(span));
    }
    constexpr double kPixels = 4000;  // shorter spans are not seen before the page is zoomed
    constexpr int kDoublings = 16;    // beyond it, neighbours are joined whatever they are
    double least = (end - start) / kPixels;
    for (int i = 0; i < kDoublings && count_of(out.rows) > most; ++i, least *= 2) {
        for (TimelineRow& row : out.rows) {
            join_shorter_than(least, row.boxes);
        }
    }
    return out;
}

}  // namespace stoker

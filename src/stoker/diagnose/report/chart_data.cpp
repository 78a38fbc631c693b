// Timeline, flame graph, memory and operators as the page draws them. Names repeat, so they are indices into a list.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "stoker/diagnose/costly_calls.h"
#include "stoker/diagnose/report/operator_table.h"
#include "stoker/diagnose/report/page_data.h"
#include "stoker/diagnose/report/thin.h"

namespace stoker {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostBoxes = 5000;
constexpr std::size_t kMostFrames = 4000;
constexpr std::size_t kMostPoints = 600;  // of a memory curve
constexpr std::size_t kMostCurves = 8;
constexpr std::size_t kMostOperators = 100;

double tenths(double us) {
    return std::round(us * 10) / 10;
}

class Names {
  public:
    std::size_t index(const std::string& name) {
        const auto [at, is_new] = index_.try_emplace(name, index_.size());
        if (is_new) {
            list_.push_back(shown_text(name));
        }
        return at->second;
    }
    Json list() && { return std::move(list_); }

  private:
    std::map<std::string, std::size_t> index_;
    Json list_ = Json::array();
};

// Memory at the end of each interval, by step, for runs without a profile.
Json interval_curves(const RunRecords& records) {
    Json curves = Json::array();
    for (const RankRecords& rank : records.ranks) {
        const std::string of_rank = records.ranks.size() > 1 ? " of rank " + std::to_string(rank.facts.rank) : "";
        const auto add = [&](const char* name, auto of) {
            std::vector<MemoryPoint> points;
            for (const IntervalEntry& interval : rank.intervals) {
                if (const auto& bytes = interval.*of; bytes) {
                    points.push_back({static_cast<double>(interval.last_step), *bytes});
                }
            }
            if (points.size() > 1 && curves.size() < kMostCurves) {
                Json kept = Json::array();
                for (const MemoryPoint& point : thinned(points, kMostPoints)) {
                    kept.push_back({point.us, point.bytes});
                }
                curves.push_back({{"name", name + of_rank}, {"points", kept}});
            }
        };
        add("GPU, peak of the allocator", &IntervalEntry::device_bytes);
        add("process (RSS)", &IntervalEntry::rss_bytes);
    }
    return curves;
}

Json operator_row(const OperatorRow& row, Names& names) {
    return {names.index(row.name), names.index(row.shapes), names.index(row.place), row.count, tenths(row.self_us),
            tenths(row.total_us),  tenths(row.device_us),   row.self_bytes,         row.flops};
}

}  // namespace

// {"names", "start", "end", "rows": [{"lane", "depth", "boxes": [name, start, duration, busy or 0 if the same, ...]}]}
Json timeline_data(const Report& report) {
    const TimelineRows timeline = timeline_rows(report.timeline, kMostBoxes);
    if (timeline.rows.empty()) {
        return nullptr;
    }
    double start = timeline.rows[0].boxes[0].start_us;
    double end = start;
    for (const TimelineRow& row : timeline.rows) {
        for (const TimelineBox& box : row.boxes) {
            start = std::min(start, box.start_us);
            end = std::max(end, box.start_us + box.duration_us);
        }
    }
    Names names;
    Json rows = Json::array();
    for (const TimelineRow& row : timeline.rows) {
        Json boxes = Json::array();
        for (const TimelineBox& box : row.boxes) {
            boxes.push_back(names.index(box.name));
            boxes.push_back(tenths(box.start_us - start));
            boxes.push_back(tenths(box.duration_us));
            boxes.push_back(box.spans > 1 ? tenths(box.busy_us) : 0);
        }
        rows.push_back({{"lane", names.index(row.lane)}, {"depth", row.depth}, {"boxes", std::move(boxes)}});
    }
    return {{"names", std::move(names).list()},
            {"us", tenths(end - start)},
            {"rows", std::move(rows)},
            {"left_out", timeline.left_out}};
}

// {"names", "frames": [name, depth, microseconds, ...]}, callers before their callees.
Json flame_data(const Report& report) {
    const std::vector<FlatFrame> frames = flat_frames(report.flame, kMostFrames);
    if (frames.empty()) {
        return nullptr;
    }
    Names names;
    Json out = Json::array();
    for (const FlatFrame& frame : frames) {
        out.push_back(names.index(frame.name));
        out.push_back(frame.depth);
        out.push_back(tenths(frame.value_us));
    }
    return {{"names", std::move(names).list()}, {"frames", std::move(out)}};
}

// {"x": "us" | "step", "curves": [{"name", "points": [[x, bytes], ...]}]}
Json memory_data(const Report& report) {
    Json curves = Json::array();
    for (const MemoryCurve& curve : report.memory) {
        if (curve.points.empty() || curves.size() == kMostCurves) {
            continue;
        }
        Json points = Json::array();
        for (const MemoryPoint& point : thinned(curve.points, kMostPoints)) {
            points.push_back({tenths(point.us), point.bytes});
        }
        curves.push_back({{"name", shown_text(curve.name)}, {"points", std::move(points)}});
    }
    const bool by_time = !curves.empty();
    if (!by_time) {
        curves = interval_curves(report.records);
    }
    if (curves.empty()) {
        return nullptr;
    }
    return {{"x", by_time ? "us" : "step"}, {"curves", std::move(curves)}};
}

// {"names", "tables": [{"by", "rows": [[name, shapes, place, count, self, total, device, bytes, flops], ...], "rest":
// the same or null, "rest_rows"}]}; times in microseconds.
Json operators_data(const Report& report) {
    const std::vector<OperatorRow> rows = operator_rows(report);
    if (rows.empty()) {
        return nullptr;
    }
    Names names;
    Json tables = Json::array();
    const auto add = [&](const char* by, OperatorKey key) {
        const OperatorTable table = operator_table(rows, key, kMostOperators);
        Json out = Json::array();
        for (const OperatorRow& row : table.rows) {
            out.push_back(operator_row(row, names));
        }
        tables.push_back({{"by", by},
                          {"rows", std::move(out)},
                          {"rest", table.rest_rows > 0 ? operator_row(table.rest, names) : Json(nullptr)},
                          {"rest_rows", table.rest_rows}});
    };
    add("name", OperatorKey::name);
    if (std::ranges::any_of(rows, [](const OperatorRow& row) { return !row.shapes.empty(); })) {
        add("shape", OperatorKey::shapes);
    }
    if (std::ranges::any_of(rows, [](const OperatorRow& row) { return !row.place.empty(); })) {
        add("place", OperatorKey::place);
    }
    return {{"names", std::move(names).list()}, {"tables", std::move(tables)}};
}

// {"rank", "steps", "rows": [[name, place or "", count, self, with callees], ...]}, of the first rank that has any;
// times in microseconds.
Json functions_data(const Report& report) {
    constexpr std::size_t kMostFunctions = 40;
    const auto& ranks = report.records.ranks;
    const auto rank = std::ranges::find_if(ranks, [](const RankRecords& of) { return of.functions.has_value(); });
    if (rank == ranks.end() || rank->functions->functions.empty()) {
        return nullptr;
    }
    Json rows = Json::array();
    for (const FunctionEntry& function : costly_functions(*rank, kMostFunctions)) {
        rows.push_back({shown_text(function.name), shown_text(function.place), function.count, tenths(function.self_us),
                        tenths(function.total_us)});
    }
    return {{"rank", rank->facts.rank}, {"steps", rank->functions->steps}, {"rows", std::move(rows)}};
}

}  // namespace stoker

#include "stoker/profile/profile_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "stoker/profile/event_tree.h"
#include "stoker/profile/key_averages.h"
#include "stoker/profile/stacks.h"

namespace stoker {
namespace {

double us(std::int64_t ns) {
    return static_cast<double>(ns) / 1e3;
}

FlameFrame flame_of(const StackSum& sum) {
    FlameFrame frame{.name = sum.name, .value_us = us(sum.total_ns)};
    for (const StackSum& child : sum.children) {
        frame.children.push_back(flame_of(child));
    }
    return frame;
}

// The threads' frames, then the devices' streams.
std::vector<TimelineSpan> timeline_of(const Profile& profile, std::span<const ThreadStacks> threads,
                                      const ProfileWindow& window) {
    std::vector<TimelineSpan> spans;
    const auto add = [&](const std::string& lane, const std::string& name, std::int64_t start, std::int64_t end) {
        if (start < window.end_ns && end > window.begin_ns) {
            spans.push_back(
                {.lane = lane, .name = name, .start_us = us(start - window.begin_ns), .duration_us = us(end - start)});
        }
    };
    for (const ThreadStacks& thread : threads) {
        for (const StackFrame& frame : thread.frames) {
            add(thread.thread, frame.name, frame.start_ns, frame.end_ns);
        }
    }
    for (const ProfileEvent& event : profile.events) {
        if (on_device(event.kind) && event.kind != ProfiledKind::gpu_range) {
            add(fmt::format("GPU {} stream {}", event.device, event.thread), event.name, event.start_ns, event.end_ns);
        }
    }
    return spans;
}

std::vector<MemoryCurve> memory_of(const Profile& profile, const ProfileWindow& window) {
    std::map<std::string, MemoryCurve> curves;
    for (const MemoryEvent& change : profile.memory) {
        MemoryCurve& curve = curves[change.device];
        curve.name = change.device == "cpu" ? "host, since the recording began" : change.device + " allocated";
        curve.points.push_back({.us = us(change.at_ns - window.begin_ns), .bytes = change.allocated});
    }
    std::vector<MemoryCurve> all;
    for (auto& [device, curve] : curves) {
        all.push_back(std::move(curve));
    }
    return all;
}

std::vector<OperatorRow> operators_of(const Profile& profile, std::span<const EventNode> nodes) {
    std::vector<OperatorRow> rows;
    for (OperatorStats& stats : key_averages(profile, nodes, GroupBy::shape)) {
        rows.push_back({.name = std::move(stats.name),
                        .shapes = std::move(stats.shapes),
                        .place = std::move(stats.place),
                        .count = stats.count,
                        .self_us = stats.self_us,
                        .total_us = stats.total_us,
                        .device_us = stats.device_us,
                        .self_bytes = stats.self_bytes,
                        .flops = static_cast<double>(stats.flops)});
    }
    return rows;
}

}  // namespace

Report profile_page(const ProfiledRun& run, const Diagnosis& diagnosis, const std::string& title) {
    Report report{.title = title, .records = run.records, .diagnosis = diagnosis};
    const std::vector<ThreadStacks> threads = thread_stacks(run.profile, run.nodes);
    for (const ThreadStacks& thread : threads) {
        report.flame.push_back(flame_of(sum_stacks(thread)));
    }
    report.operators = operators_of(run.profile, run.nodes);
    if (!run.profile.windows.empty()) {
        const ProfileWindow& window = run.profile.windows.front();
        report.timeline = timeline_of(run.profile, threads, window);
        report.memory = memory_of(run.profile, window);
    }
    return report;
}

}  // namespace stoker

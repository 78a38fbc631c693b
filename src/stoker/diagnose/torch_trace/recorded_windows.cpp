#include "stoker/diagnose/torch_trace/recorded_windows.h"

#include <algorithm>
#include <map>
#include <utility>

#include "stoker/diagnose/torch_trace/trace_steps.h"

namespace stoker {
namespace {

// The starts of steps whose number is not the next one, ascending.
std::vector<std::int64_t> holes_of(const TraceEvents& trace) {
    std::map<std::int64_t, std::int64_t> starts;  // number of a step -> when the host began it
    for (const TraceStep& step : trace_steps(trace)) {
        starts.emplace(step.number, step.time.start);
    }
    std::vector<std::int64_t> holes;
    std::pair<std::int64_t, std::int64_t> last{};
    for (const auto& [number, start] : starts) {
        if (last.second != 0 && number - last.first > 1 && start > last.second) {
            holes.push_back(start);
        }
        last = {number, start};
    }
    return holes;
}

void add_event(const TraceEvents& from, TraceEvent event, TraceEvents& to) {
    event.name = to.names.number(from.names[event.name]);
    event.shapes = to.names.number(from.names[event.shapes]);
    event.types = to.names.number(from.names[event.types]);
    event.thread = to.threads.number(from.threads[event.thread]);
    to.events.push_back(event);
}

}  // namespace

std::vector<TraceEvents> recorded_windows(TraceEvents trace) {
    const std::vector<std::int64_t> holes = holes_of(trace);
    std::vector<TraceEvents> windows(holes.empty() ? 0 : holes.size() + 1);
    if (holes.empty()) {
        windows.push_back(std::move(trace));
        return windows;
    }
    for (std::size_t i = 0; i < trace.events.size(); ++i) {
        const TraceEvent& event = trace.events[i];
        const auto window = std::ranges::upper_bound(holes, event.start_ns) - holes.begin();
        add_event(trace, event, windows[static_cast<std::size_t>(window)]);
    }
    for (TraceEvents& window : windows) {
        window.rank = trace.rank;
        window.world_size = trace.world_size;
        window.writer = trace.writer;
        window.backend = trace.backend;
        window.devices = trace.devices;
        window.read = trace.read;
        window.fractional = trace.fractional;
        window.peak_device_bytes = trace.peak_device_bytes;
    }
    windows.front().problems = std::move(trace.problems);
    return windows;
}

}  // namespace stoker

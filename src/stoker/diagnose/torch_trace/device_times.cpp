#include "stoker/diagnose/torch_trace/device_times.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace stoker {

std::int64_t drop_work_without_time(TraceEvents& trace) {
    std::vector<std::size_t> at_zero;
    std::int64_t first_of_host = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < trace.events.size(); ++i) {
        const TraceEvent& event = trace.events[i];
        if (is_device_work(event.kind)) {
            if (event.start_ns == 0) {
                at_zero.push_back(i);
            }
        } else if (event.kind != EventKind::other && event.kind != EventKind::device_annotation) {
            first_of_host = std::min(first_of_host, event.start_ns);
        }
    }
    if (first_of_host <= 0 || first_of_host == std::numeric_limits<std::int64_t>::max()) {
        return 0;
    }
    for (const std::size_t i : at_zero) {
        trace.events[i] = {.name = trace.events[i].name, .thread = trace.events[i].thread};
    }
    return std::ssize(at_zero);
}

void end_work_at_the_next(TraceEvents& trace) {
    std::map<std::pair<std::int16_t, std::int64_t>, std::vector<std::uint32_t>> streams;
    for (std::size_t i = 0; i < trace.events.size(); ++i) {
        const TraceEvent& event = trace.events[i];
        if (is_device_work(event.kind) && event.stream >= 0) {
            streams[{event.device, event.stream}].push_back(static_cast<std::uint32_t>(i));
        }
    }
    const auto start_of = [&](std::uint32_t i) { return trace.events[i].start_ns; };
    for (auto& [stream, work] : streams) {
        if (!std::ranges::is_sorted(work, {}, start_of)) {  // usually they are
            std::ranges::stable_sort(work, {}, start_of);
        }
        for (std::size_t i = 0; i + 1 < work.size(); ++i) {
            TraceEvent& event = trace.events[work[i]];
            const TraceEvent& next = trace.events[work[i + 1]];
            const bool of_one_graph = event.correlation >= 0 && event.correlation == next.correlation;
            if (event.end_ns() > next.start_ns && !of_one_graph) {
                event.duration_ns = next.start_ns - event.start_ns;
            }
        }
    }
}

}  // namespace stoker

// The events of each host thread in order of time, and a walk over them that knows what lies within what.
#pragma once

#include <cstdint>
#include <vector>

#include "stoker/diagnose/torch_trace/trace_events.h"

namespace stoker {

struct HostThread {
    std::uint32_t thread = 0;           // in TraceEvents::threads
    std::vector<std::uint32_t> events;  // by start; of those that start together, the longest first
};

// Threads with operators, annotations, runtime calls or Python functions.
std::vector<HostThread> host_threads(const TraceEvents& trace);

// The thread that trains. Among those with operators (ranges may have a separate thread) the one with ProfilerStep#N,
// else with the loader's or the optimizer's ranges, else with the most time in operators. Index in `threads`;
// threads.size() if there is none.
std::size_t training_thread(const TraceEvents& trace, const std::vector<HostThread>& threads);

// Calls enter(event, outer) for each event in order of time, where `outer` holds the events around it, outermost first,
// and leave(event) at its end. An event that outlasts the one around it counts as within.
template <typename Enter, typename Leave>
void walk(const TraceEvents& trace, const HostThread& thread, Enter enter, Leave leave) {
    std::vector<std::uint32_t> outer;
    for (const std::uint32_t index : thread.events) {
        const TraceEvent& event = trace.events[index];
        while (!outer.empty() && trace.events[outer.back()].end_ns() <= event.start_ns) {
            leave(outer.back());
            outer.pop_back();
        }
        enter(index, outer);
        if (event.duration_ns > 0) {
            outer.push_back(index);
        } else {
            leave(index);
        }
    }
    for (; !outer.empty(); outer.pop_back()) {
        leave(outer.back());
    }
}

}  // namespace stoker

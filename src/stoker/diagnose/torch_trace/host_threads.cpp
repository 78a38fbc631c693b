#include "stoker/diagnose/torch_trace/host_threads.h"

#include <algorithm>
#include <tuple>

namespace stoker {
namespace {

bool is_host(EventKind kind) {
    return kind == EventKind::op || kind == EventKind::annotation || kind == EventKind::runtime ||
           kind == EventKind::python;
}

}  // namespace

std::vector<HostThread> host_threads(const TraceEvents& trace) {
    std::vector<HostThread> all(trace.threads.size());
    for (std::size_t i = 0; i < trace.events.size(); ++i) {
        const TraceEvent& event = trace.events[i];
        if (is_host(event.kind) && event.duration_ns >= 0) {
            all[event.thread].events.push_back(static_cast<std::uint32_t>(i));
        }
    }
    std::vector<HostThread> threads;
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i].events.empty()) {
            continue;
        }
        all[i].thread = static_cast<std::uint32_t>(i);
        const auto key = [&](std::uint32_t index) {
            const TraceEvent& event = trace.events[index];
            return std::tuple(event.start_ns, -event.duration_ns, index);
        };
        std::ranges::sort(all[i].events, {}, key);
        threads.push_back(std::move(all[i]));
    }
    return threads;
}

std::size_t training_thread(const TraceEvents& trace, const std::vector<HostThread>& threads) {
    std::size_t best = threads.size();
    std::tuple<bool, std::int64_t, std::int64_t, std::int64_t> most{false, 0, 0, 0};
    for (std::size_t i = 0; i < threads.size(); ++i) {
        std::int64_t steps = 0;
        std::int64_t ranges = 0;
        std::int64_t time = 0;
        for (const std::uint32_t index : threads[i].events) {
            const TraceEvent& event = trace.events[index];
            if (event.kind == EventKind::runtime || event.kind == EventKind::python) {
                continue;
            }
            const std::string& name = trace.names[event.name];
            steps += name.starts_with("ProfilerStep#") ? 1 : 0;
            ranges += name.starts_with("enumerate(DataLoader)#") || name.starts_with("Optimizer.step#") ? 1 : 0;
            time += event.kind == EventKind::op ? event.duration_ns : 0;
        }
        const std::tuple found{time > 0, steps, ranges, time};
        if (found > most) {
            most = found;
            best = i;
        }
    }
    return best;
}

}  // namespace stoker

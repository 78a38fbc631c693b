#include "stoker/diagnose/torch_trace/trace_steps.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "stoker/base/parse_number.h"

namespace stoker {
namespace {

// The numbers of steps by the name of their event.
std::unordered_map<std::uint32_t, std::int64_t> step_numbers(const TextTable& names) {
    constexpr std::string_view kStep = "ProfilerStep#";
    constexpr std::int64_t kMost = std::int64_t{1} << 40;  // a damaged trace may have any number
    std::unordered_map<std::uint32_t, std::int64_t> numbers;
    for (std::uint32_t i = 0; i < names.size(); ++i) {
        const std::string_view name = names[i];
        if (name.starts_with(kStep)) {
            const auto number = parse_number<std::int64_t>(name.substr(kStep.size()));
            numbers[i] = std::clamp<std::int64_t>(number.value_or(std::ssize(numbers) + 1), 0, kMost);
        }
    }
    return numbers;
}

}  // namespace

std::vector<TraceStep> trace_steps(const TraceEvents& trace) {
    const auto numbers = step_numbers(trace.names);
    std::vector<TraceStep> steps;
    for (std::size_t i = 0; !numbers.empty() && i < trace.events.size(); ++i) {
        const TraceEvent& event = trace.events[i];
        if (event.kind != EventKind::annotation && event.kind != EventKind::op) {
            continue;
        }
        if (const auto number = numbers.find(event.name); number != numbers.end()) {
            steps.push_back({.number = number->second, .time = {event.start_ns, event.end_ns()}});
        }
    }
    std::ranges::stable_sort(steps, {}, [](const TraceStep& step) { return step.time.start; });
    return steps;
}

std::size_t warm_up_steps(std::size_t steps) {
    return steps > 1 ? std::max<std::size_t>(steps / 10, 1) : 0;
}

TimeRange window_of(const TraceEvents& trace, std::span<const TraceStep> steps) {
    TimeRange window{};
    bool any = false;
    const auto include = [&](const TimeRange& time) {
        window.start = any ? std::min(window.start, time.start) : time.start;
        window.end = any ? std::max(window.end, time.end) : time.end;
        any = true;
    };
    for (const TraceStep& step : steps) {
        include(step.time);
    }
    for (std::size_t i = 0; steps.empty() && i < trace.events.size(); ++i) {
        const TraceEvent& event = trace.events[i];
        if (event.kind != EventKind::other && event.duration_ns >= 0) {
            include({event.start_ns, event.end_ns()});
        }
    }
    return window;
}

}  // namespace stoker

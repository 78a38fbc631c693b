#include "stoker/diagnose/torch_trace/gpu_breakdown.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "stoker/diagnose/torch_trace/phases.h"

namespace stoker {
namespace {

constexpr double kKernelWaitUs = 30;

// Microseconds, in HTA's doubles.
struct Interval {
    double start = 0;
    double end = 0;
};

struct Launched {  // work on a stream
    Interval time = {};
    double launch = -std::numeric_limits<double>::infinity();  // when the host called; no host wait if unknown
};

// The double that Python reads from the file; nanoseconds since 1970 have more digits than a double.
double microseconds(std::int64_t ns) {
    return static_cast<double>(ns / 1000) + static_cast<double>(ns % 1000) / 1000;
}

Interval interval_of(const TraceEvent& event, bool rounded) {
    const double start = microseconds(event.start_ns);
    const double end = start + microseconds(event.duration_ns);
    return rounded ? Interval{std::ceil(start), std::floor(end)} : Interval{start, end};
}

bool is_gpu(const TraceEvent& event, const TextTable& names) {
    const std::string& name = names[event.name];
    return (event.stream >= 0 && event.correlation >= 0) || name == "Event Sync" || name == "Context Sync";
}

// The span of overlapping intervals and the time that they cover.
struct Covered {
    double span = 0;
    double time = 0;
};

Covered covered(std::vector<Interval> intervals) {
    if (intervals.empty()) {
        return {};
    }
    std::ranges::stable_sort(intervals, {}, &Interval::start);
    Covered sum;
    Interval group = intervals.front();
    double latest = group.end;  // of all before; a rounded interval may end before it begins
    for (const Interval& next : std::span(intervals).subspan(1)) {
        if (next.start > latest) {
            sum.time += group.end - group.start;
            group = next;
        } else {
            group.end = std::max(group.end, next.end);
        }
        latest = std::max(latest, next.end);
    }
    sum.time += group.end - group.start;
    sum.span = group.end - intervals.front().start;
    return sum;
}

// The start of the last of several steps; infinity if there are none or one.
double last_step(const TraceEvents& trace) {
    std::set<std::uint32_t> steps;
    double last = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < trace.events.size(); ++i) {
        const TraceEvent& event = trace.events[i];
        if (trace.names[event.name].find("ProfilerStep") != std::string::npos) {
            steps.insert(event.name);
            if (!is_gpu(event, trace.names)) {
                last = std::max(last, interval_of(event, trace.fractional).start);
            }
        }
    }
    return steps.size() > 1 ? last : std::numeric_limits<double>::infinity();
}

// correlation -> when the host launched it; of several events the last in the file.
std::unordered_map<std::int64_t, double> launches(const TraceEvents& trace, double end) {
    std::unordered_map<std::int64_t, double> found;
    for (std::size_t i = 0; i < trace.events.size(); ++i) {
        const TraceEvent& event = trace.events[i];
        if (event.correlation == -1 || is_gpu(event, trace.names)) {
            continue;
        }
        const double start = interval_of(event, trace.fractional).start;
        if (start < end) {
            found[event.correlation] = start;
        }
    }
    return found;
}

// As HTA does: a gap is negative where work overlaps.
GpuTimes::Idle idle_of(std::int64_t stream, std::vector<Launched> work) {
    std::ranges::stable_sort(work, {}, [](const Launched& launched) { return launched.time.start; });
    GpuTimes::Idle idle{.stream = stream};
    for (std::size_t i = 1; i < work.size(); ++i) {
        const double before = work[i - 1].time.end;
        const double gap = work[i].time.start - before;
        double& cause = work[i].launch > before ? idle.host_wait_us
                        : gap < kKernelWaitUs   ? idle.kernel_wait_us
                                                : idle.other_us;
        cause += gap;
    }
    return idle;
}

// The same within the window; the branches of a graph may overlap.
void add_idle(std::vector<Launched> work, const Interval& window, GpuTimes::Idle& idle) {
    std::ranges::stable_sort(work, {}, [](const Launched& launched) { return launched.time.start; });
    double before = work.front().time.end;  // the latest end so far
    for (const Launched& next : std::span(work).subspan(1)) {
        const double gap = next.time.start - before;
        double& cause = next.launch > before  ? idle.host_wait_us
                        : gap < kKernelWaitUs ? idle.kernel_wait_us
                                              : idle.other_us;
        cause += std::max(0.0, std::min(next.time.start, window.end) - std::max(before, window.start));
        before = std::max(before, next.time.end);
    }
}

}  // namespace

bool is_communication_kernel(std::string_view name) {
    const std::string_view line = name.substr(0, name.find('\n'));
    return line.starts_with("nccl") && line.find("Kernel") != std::string_view::npos;
}

// HTA's expression, which does not look beyond a line break.
bool is_compute_kernel(std::string_view name) {
    const std::string_view line = name.substr(0, name.find('\n'));
    return !is_communication_kernel(line) && !line.starts_with("Memset") && !line.starts_with("dma") &&
           line.find("Memcpy") == std::string_view::npos && line.find("Sync") == std::string_view::npos;
}

std::optional<GpuTimes> hta_breakdown(const TraceEvents& trace) {
    const double end = last_step(trace);
    const auto launched = launches(trace, end);
    const bool filtered = end != std::numeric_limits<double>::infinity();
    std::vector<Interval> all;
    std::vector<Interval> compute;
    std::map<std::int64_t, std::vector<Launched>> streams;
    for (std::size_t i = 0; i < trace.events.size(); ++i) {
        const TraceEvent& event = trace.events[i];
        if (event.stream == -1) {
            continue;
        }
        const auto launch = launched.find(event.correlation);
        const Interval time = interval_of(event, trace.fractional);
        const bool kept = is_gpu(event, trace.names) ? launch != launched.end() : time.start < end;
        if (filtered && !kept) {
            continue;
        }
        all.push_back(time);
        if (is_compute_kernel(trace.names[event.name])) {
            compute.push_back(time);
        }
        if (is_device_work(event.kind)) {
            Launched work{.time = time};
            if (launch != launched.end()) {
                work.launch = launch->second;
            }
            streams[event.stream].push_back(work);
        }
    }
    if (all.empty()) {
        return {};
    }
    const Covered busy = covered(std::move(all));
    GpuTimes gpu;
    gpu.compute_us = covered(std::move(compute)).time;
    gpu.idle_us = busy.span - busy.time;
    gpu.non_compute_us = busy.span - gpu.compute_us - gpu.idle_us;
    for (auto& [stream, work] : streams) {
        gpu.idle.push_back(idle_of(stream, std::move(work)));
    }
    return gpu;
}

GpuTimes gpu_breakdown(const TraceEvents& trace, const HostWalk& host, const DeviceProfile& device,
                       const TimeRange& window) {
    const auto to_us = [](std::int64_t ns) { return static_cast<double>(ns) / 1000; };
    const std::int64_t all = window.end - window.start;
    const std::int64_t busy = covered_ns(device.busy, window);
    const std::int64_t compute = covered_ns(device.compute, window);
    GpuTimes gpu{.compute_us = to_us(compute), .non_compute_us = to_us(busy - compute), .idle_us = to_us(all - busy)};
    std::map<std::pair<std::int64_t, std::int16_t>, std::vector<Launched>> streams;  // of each device
    // Differences are small enough for doubles; times since 1970 are not.
    const auto interval = [&](const TimeRange& time) {
        return Interval{to_us(time.start - window.start), to_us(time.end - window.start)};
    };
    for (std::size_t i = 0; i < trace.events.size(); ++i) {
        const TraceEvent& event = trace.events[i];
        if (event.stream >= 0 && is_device_work(event.kind)) {
            Launched work{.time = interval(event.time())};
            if (const auto launch = host.launches.find(event.correlation); launch != host.launches.end()) {
                work.launch = to_us(launch->second.start - window.start);
            }
            streams[{event.stream, event.device}].push_back(work);
        }
    }
    for (auto& [stream, work] : streams) {
        if (gpu.idle.empty() || gpu.idle.back().stream != stream.first) {
            gpu.idle.push_back({.stream = stream.first});
        }
        add_idle(std::move(work), interval(window), gpu.idle.back());
    }
    return gpu;
}

}  // namespace stoker

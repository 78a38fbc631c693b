#include "stoker/diagnose/torch_trace/device_profile.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "stoker/diagnose/torch_trace/gpu_breakdown.h"
#include "stoker/diagnose/torch_trace/phases.h"

namespace stoker {
namespace {

// "Memcpy HtoD (Pageable -> Device)" -> "HtoD".
std::string copy_kind(std::string_view name) {
    if (is_copy_to_device(name)) {
        return "HtoD";
    }
    if (is_copy_to_host(name)) {
        return "DtoH";
    }
    if (name.find("DtoD") != std::string_view::npos || name.find("D2D") != std::string_view::npos) {
        return "DtoD";
    }
    return name.find("PtoP") != std::string_view::npos ? "PtoP" : "other";
}

// "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)" -> "nccl:all_reduce".
std::string collective_name(std::string_view kernel) {
    const std::size_t begin = kernel.find('_');
    std::string name = "nccl:";
    if (begin == std::string_view::npos) {
        return name + "collective";
    }
    const std::string_view word = kernel.substr(begin + 1, kernel.find('_', begin + 1) - begin - 1);
    for (std::size_t i = 0; i < word.size(); ++i) {
        const auto c = static_cast<unsigned char>(word[i]);
        if (i > 0 && std::isupper(c) != 0 && std::islower(static_cast<unsigned char>(word[i - 1])) != 0) {
            name += '_';
        }
        name += static_cast<char>(std::tolower(c));
    }
    return name;
}

// "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)", or of older libraries "ncclKernel_AllReduce_RING_LL_Sum_half(...)".
bool sends_half(std::string_view kernel) {
    constexpr std::array<std::string_view, 4> kTypes = {"_bf16", "_f16", "_half", "bfloat16"};
    return std::ranges::any_of(kTypes, [&](std::string_view type) { return kernel.find(type) != kernel.npos; });
}

// Counts what begins in the window; times are those within it.
struct Collector {
    const TraceEvents& trace;
    const HostWalk& host;
    TimeRange window = {};
    std::vector<TimeRange> compute = {};   // joined
    std::vector<TimeRange> training = {};  // joined times of the host's operators
    std::map<std::tuple<std::string, bool>, CopyEntry> copies = {};
    std::map<std::tuple<std::string, std::string, bool>, CollectiveEntry> collectives = {};
    std::vector<std::pair<TimeRange, CollectiveEntry*>> collective_times = {};
    std::vector<double> delays = {};

    TimeRange clipped(const TraceEvent& event) const {
        return {std::max(event.start_ns, window.start), std::min(event.end_ns(), window.end)};
    }
    static double us_of(const TimeRange& time) {
        return static_cast<double>(std::max<std::int64_t>(0, time.end - time.start)) / 1000;
    }

    void copy(const TraceEvent& event) {
        const std::string& name = trace.names[event.name];
        const bool pageable = name.find("Pageable") != std::string::npos;
        CopyEntry& entry = copies[{copy_kind(name), pageable}];
        entry.kind = copy_kind(name);
        entry.pageable = pageable;
        const bool begins = begins_in(event, window);
        entry.count += begins ? 1 : 0;
        entry.bytes += begins ? event.bytes : 0;
        const TimeRange time = clipped(event);
        entry.us += us_of(time);
        entry.overlapped_us += static_cast<double>(covered_ns(compute, time)) / 1000;
    }

    void collective(const TraceEvent& event, const std::string& name, const std::string& backend, bool on_device) {
        const bool half = backend == "nccl" && sends_half(trace.names[event.name]);
        CollectiveEntry& entry = collectives[{name, backend, half}];
        entry.half = half;
        entry.name = name;
        entry.backend = backend;
        entry.on_device = on_device;
        entry.count += begins_in(event, window) ? 1 : 0;
        const TimeRange time = clipped(event);
        entry.us += us_of(time);
        collective_times.emplace_back(time, &entry);
    }

    // Time in which several collectives run is exposed once: it counts to the one that began first.
    void add_exposed() {
        std::ranges::stable_sort(collective_times, {}, [](const auto& each) { return each.first.start; });
        std::int64_t counted = std::numeric_limits<std::int64_t>::min();
        for (const auto& [time, entry] : collective_times) {
            const TimeRange rest{std::max(time.start, counted), time.end};
            if (rest.start < rest.end) {
                const std::int64_t hidden = covered_ns(entry->on_device ? compute : training, rest);
                entry->exposed_us += static_cast<double>(rest.end - rest.start - hidden) / 1000;
                counted = rest.end;
            }
        }
    }
};

// Operators of the training thread and of autograd: what gloo's threads can hide behind.
std::vector<TimeRange> training_work(const HostWalk& host) {
    std::vector<TimeRange> work = host.backward;
    for (const RootOp& root : host.roots) {
        work.push_back(root.time);
    }
    return joined(std::move(work));
}

template <typename Map, typename Entry>
void move_values(Map& from, std::vector<Entry>& to) {
    for (auto& [key, entry] : from) {
        to.push_back(std::move(entry));
    }
}

}  // namespace

bool uses_tensor_cores(std::string_view kernel) {
    // Names of instructions and of the libraries' kernels that are built on them.
    constexpr std::array<std::string_view, 20> kParts = {
        "884",       "1688",      "16816", "hmma",  "imma",   "gmma",    "tensorop", "tensor_op", "xmma",     "nvjet",
        "flash_fwd", "flash_bwd", "fmha",  "i8816", "bf16_s", "f16_s16", "tf32",     "mma_",      "_tcgen05", "h16832"};
    // The same libraries' kernels for the usual cores, which compute in fp32 throughout.
    constexpr std::array<std::string_view, 2> kNot = {"simt", "f32f32_f32f32_f32"};
    const auto contains = [&](std::string_view part) { return kernel.find(part) != std::string_view::npos; };
    return std::ranges::none_of(kNot, contains) && std::ranges::any_of(kParts, contains);
}

std::vector<TimeRange> idle_gaps(const std::vector<TimeRange>& busy, const TimeRange& window) {
    std::vector<TimeRange> gaps;
    std::int64_t idle_from = window.start;
    const auto add_gap = [&](std::int64_t until) {
        const TimeRange gap{idle_from, std::min(until, window.end)};
        if (gap.start < gap.end) {
            gaps.push_back(gap);
        }
    };
    for (const TimeRange& range : busy) {
        add_gap(range.start);
        idle_from = std::max(idle_from, range.end);
    }
    if (!busy.empty()) {
        add_gap(window.end);
    }
    return gaps;
}

std::vector<TimeRange> queued_gaps(const TraceEvents& trace, const HostWalk& host, std::vector<TimeRange> gaps) {
    struct Work {
        std::int64_t start = 0;
        std::int64_t launched = 0;  // unknown: its start
    };
    std::vector<Work> all;
    for (std::size_t i = 0; i < trace.events.size(); ++i) {
        const TraceEvent& event = trace.events[i];
        if (is_device_work(event.kind)) {
            const auto launch = host.launches.find(event.correlation);
            all.push_back({.start = event.start_ns,
                           .launched = launch != host.launches.end() ? launch->second.end : event.start_ns});
        }
    }
    std::ranges::stable_sort(all, {}, &Work::start);
    std::erase_if(gaps, [&](const TimeRange& gap) {
        const auto next = std::ranges::lower_bound(all, gap.end, {}, &Work::start);
        return next == all.end() || next->launched > gap.start;
    });
    return gaps;
}

DeviceProfile profile_device(const TraceEvents& trace, const HostWalk& host, const TimeRange& window) {
    DeviceProfile profile;
    std::vector<TimeRange> compute;
    for (std::size_t i = 0; i < trace.events.size(); ++i) {
        const TraceEvent& event = trace.events[i];
        if (is_device_work(event.kind) && event.duration_ns >= 0) {
            profile.busy.push_back(event.time());
            if (is_compute_kernel(trace.names[event.name])) {
                compute.push_back(event.time());
            }
        }
    }
    profile.busy = joined(std::move(profile.busy));
    profile.compute = joined(std::move(compute));
    Collector collector{
        .trace = trace, .host = host, .window = window, .compute = profile.compute, .training = training_work(host)};
    std::set<int> devices;
    std::unordered_set<std::int64_t> launched;  // correlations
    for (std::size_t i = 0; i < trace.events.size(); ++i) {
        const TraceEvent& event = trace.events[i];
        const bool begins = begins_in(event, window);
        if (!begins && within_ns(event.time(), window) == 0) {
            continue;
        }
        const std::string& name = trace.names[event.name];
        if (event.kind == EventKind::memcpy) {
            collector.copy(event);
        } else if (event.kind == EventKind::kernel) {
            devices.insert(event.device);
            const double us = static_cast<double>(within_ns(event.time(), window)) / 1000;
            profile.kernel_us += us;
            profile.tensor_core_us += uses_tensor_cores(name) ? us : 0;
            const auto launch = host.launches.find(event.correlation);
            if (begins) {
                profile.kernels += 1;
                // Only a graph launches several at once.
                profile.graph_kernels +=
                    !launched.insert(event.correlation).second && launch != host.launches.end() ? 1 : 0;
            }
            if (is_communication_kernel(name)) {
                collector.collective(event, collective_name(name), "nccl", true);
            } else if (begins && launch != host.launches.end()) {
                collector.delays.push_back(static_cast<double>(event.start_ns - launch->second.start) / 1000);
            }
        } else if (event.kind == EventKind::annotation && name.starts_with("gloo:")) {
            collector.collective(event, name, "gloo", !profile.busy.empty());
        }
    }
    collector.add_exposed();
    move_values(collector.copies, profile.copies);
    move_values(collector.collectives, profile.collectives);
    profile.devices = static_cast<int>(devices.size());
    if (!collector.delays.empty()) {
        const auto middle = collector.delays.begin() + std::ssize(collector.delays) / 2;
        std::ranges::nth_element(collector.delays, middle);
        profile.launch_delay_us = *middle;
    }
    return profile;
}

}  // namespace stoker

#include "stoker/diagnose/torch_trace/read_traces.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/diagnose/phase_sums.h"
#include "stoker/diagnose/torch_trace/device_profile.h"
#include "stoker/diagnose/torch_trace/device_times.h"
#include "stoker/diagnose/torch_trace/gpu_breakdown.h"
#include "stoker/diagnose/torch_trace/host_walk.h"
#include "stoker/diagnose/torch_trace/merge_parts.h"
#include "stoker/diagnose/torch_trace/natural_order.h"
#include "stoker/diagnose/torch_trace/phases.h"
#include "stoker/diagnose/torch_trace/recorded_windows.h"
#include "stoker/diagnose/torch_trace/sequences.h"
#include "stoker/diagnose/torch_trace/trace_file.h"
#include "stoker/diagnose/torch_trace/trace_steps.h"

namespace stoker {
namespace {

double to_us(std::int64_t ns) {
    return static_cast<double>(ns) / 1000;
}

std::vector<StepEntry> step_entries(std::span<const TraceStep> steps, const std::vector<PhaseRange>& phases,
                                    const TimeRange& window) {
    std::vector<StepEntry> entries;
    if (steps.empty()) {
        if (window.end > window.start) {
            entries.push_back({.step = 1, .host = {phase_times(phases, window)}});
        }
        return entries;
    }
    for (const TraceStep& step : steps) {
        entries.push_back({.step = step.number,
                           .warm_up = entries.size() < warm_up_steps(steps.size()),
                           .host = {phase_times(phases, step.time)}});
    }
    return entries;
}

// The length of a gap that began in a wait for the device, without later waits for a batch or its copy.
double idle_after_sync_us(const std::vector<PhaseRange>& phases, const TimeRange& gap) {
    const PhaseTimes times = phase_times(phases, gap);
    const auto other = times[static_cast<std::size_t>(Phase::wait)] + times[static_cast<std::size_t>(Phase::copy)];
    return to_us(gap.end - gap.start - other.count());
}

// Waits for the device by place, the longest first. Several calls of one operator are one wait. `gaps`: the
// device waited for the host.
std::vector<SyncEntry> sync_entries(const TraceEvents& trace, const HostWalk& host, const TimeRange& window,
                                    const std::vector<PhaseRange>& phases, const std::vector<TimeRange>& gaps) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, SyncEntry> entries;
    std::set<std::uint32_t> roots;
    for (const BlockingCall& call : host.blocking) {
        if (call.copies_to_device || call.time.start < window.start || call.time.end > window.end) {
            continue;
        }
        SyncEntry& entry = entries[{call.name, call.place}];
        const std::string& name = trace.names[call.name];
        entry.place = call.place == 0 ? name : fmt::format("{}, {}", host.places[call.place], name);
        entry.us += to_us(call.time.end - call.time.start);
        const bool first = roots.insert(call.root).second;
        entry.count += first ? 1 : 0;
        // The gap that began while the host waited reaches to the next work that it launches.
        const auto gap = std::ranges::upper_bound(gaps, call.time.end, {}, &TimeRange::end);
        const bool emptied = gap != gaps.end() && gap->start <= call.time.end && gap->start >= call.time.start;
        entry.idle_us = entry.idle_us.value_or(0) + (emptied ? idle_after_sync_us(phases, *gap) : 0);
    }
    std::vector<SyncEntry> sorted;
    sorted.reserve(entries.size());
    for (auto& [key, entry] : entries) {
        sorted.push_back(std::move(entry));
    }
    std::ranges::stable_sort(sorted, std::greater<>(), &SyncEntry::us);
    return sorted;
}

std::vector<TimeRange> without(const std::vector<TimeRange>& gaps, const std::vector<TimeRange>& some) {
    std::vector<TimeRange> rest;
    std::ranges::set_difference(gaps, some, std::back_inserter(rest), {}, &TimeRange::start, &TimeRange::start);
    return rest;
}

PhaseTimes idle_by_phase(const std::vector<PhaseRange>& phases, const std::vector<TimeRange>& gaps) {
    PhaseTimes sum{};
    for (const TimeRange& gap : gaps) {
        add_times(sum, phase_times(phases, gap));
    }
    return sum;
}

GpuEntry gpu_entry(const TraceEvents& trace, const HostWalk& host, const DeviceProfile& device,
                   const TimeRange& window) {
    return {.times = gpu_breakdown(trace, host, device, window),
            .kernels = device.kernels,
            .graph_kernels = device.graph_kernels,
            .kernel_us = device.kernel_us,
            .tensor_core_us = device.tensor_core_us,
            .launch_delay_us = device.launch_delay_us};
}

// "Optimizer.step#AdamW.step" -> "AdamW", and how it updates: one tensor after the other, many at once, in one kernel.
void optimizer_facts(const std::vector<OperatorEntry>& operators, TrainFacts& facts) {
    constexpr std::string_view kStep = "Optimizer.step#";
    std::int64_t single = 0;
    bool foreach = false;
    bool fused = false;
    for (const OperatorEntry& op : operators) {
        if (!op.range.starts_with(kStep)) {
            continue;
        }
        const std::string_view name = std::string_view(op.range).substr(kStep.size());
        facts.optimizer = name.substr(0, name.find('.'));
        foreach
            = foreach || op.name.starts_with("aten::_foreach_");
        fused = fused || op.name.starts_with("aten::_fused_") || name.find("Fused") != std::string_view::npos;
        single += op.name.starts_with("aten::") ? op.count : 0;
    }
    if (!facts.optimizer.empty()) {
        facts.optimizer_kernel = fused ? "fused" : foreach ? "foreach" : single > 0 ? "single" : "";
    }
}

// PyTorch 2.12 and later record operators alone where a program chooses so.
bool has_ranges(const TraceEvents& trace) {
    for (std::size_t i = 0; i < trace.events.size(); ++i) {
        if (trace.events[i].kind == EventKind::annotation || trace.events[i].kind == EventKind::python) {
            return true;
        }
    }
    return false;
}

// Unknown for boards of other makers: their numbers of compute capability mean something else.
std::optional<bool> has_tensor_cores(const TraceEvents& trace, const TraceDevice& device) {
    constexpr int kVolta = 7;
    bool hip = false;
    for (std::size_t i = 0; i < trace.events.size() && !hip; ++i) {
        hip = trace.events[i].kind == EventKind::runtime && trace.names[trace.events[i].name].starts_with("hip");
    }
    if (hip || !device.compute_major) {
        return std::nullopt;
    }
    // The small boards of Turing have none.
    return *device.compute_major >= kVolta && device.name.find("GTX 16") == std::string::npos;
}

RunFacts facts_of(const TraceEvents& trace, const HostWalk& host, const DeviceProfile& device) {
    RunFacts facts{.writer = trace.writer.empty() ? "torch.profiler" : trace.writer,
                   .rank = trace.rank.value_or(0),
                   .world_size = std::max(trace.world_size.value_or(1), 1)};
    if (!device.busy.empty()) {
        facts.device.type = "cuda";
        facts.device.count = std::max(device.devices, 1);
        if (!trace.devices.empty()) {
            const TraceDevice& first = trace.devices.front();
            facts.device.name = first.name;
            facts.device.memory_bytes = first.memory_bytes;
            facts.device.tensor_cores = has_tensor_cores(trace, first);
        }
    }
    if (host.single_process_loader) {
        facts.data.workers = 0;
    }
    return facts;
}

// Traces are ranks of one job if each names its rank or holds collectives. Others may be of runs that have nothing to
// do with each other: their world size stays 1, and no rule compares them.
void join_ranks(RunRecords& records) {
    const bool one_job = std::ranges::all_of(records.ranks, [](const RankRecords& rank) {
        return rank.facts.world_size > 1 || !rank.profile->collectives.empty();
    });
    if (one_job) {
        for (RankRecords& rank : records.ranks) {
            rank.facts.world_size = std::max(rank.facts.world_size, static_cast<int>(records.ranks.size()));
        }
    } else if (records.ranks.size() > 1) {
        records.problems.emplace_back(
            "not every trace names its rank (distributedInfo) or holds collectives, so each is judged by itself and "
            "not "
            "as a rank of one job");
    }
}

}  // namespace

RankRecords rank_records(TraceEvents trace) {
    const std::optional<GpuTimes> hta = hta_breakdown(trace);
    end_work_at_the_next(trace);
    const std::vector<TraceStep> steps = trace_steps(trace);
    const TimeRange all = window_of(trace, steps);
    const TimeRange window = window_of(trace, std::span(steps).subspan(warm_up_steps(steps.size())));
    const std::vector<HostThread> threads = host_threads(trace);
    const HostWalk host = walk_host(trace, threads, training_thread(trace, threads), window);
    const std::vector<PhaseRange> phases = phase_ranges(trace, host, all);
    DeviceProfile device = profile_device(trace, host, window);
    const std::vector<TimeRange> gaps = idle_gaps(device.busy, window);

    RankRecords rank{.facts = facts_of(trace, host, device), .steps = step_entries(steps, phases, all)};
    const auto judged = std::ranges::count(rank.steps, false, &StepEntry::warm_up);
    ProfileEntry profile{.span_us = to_us(window.end - window.start),
                         .steps = judged,
                         .operators_only = !has_ranges(trace),
                         .operators = host.operators};
    const std::vector<TimeRange> queued = queued_gaps(trace, host, gaps);
    profile.syncs = sync_entries(trace, host, window, phases, without(gaps, queued));
    profile.sequences = find_sequences(trace, host, steps, window);
    if (!device.busy.empty()) {
        profile.gpu = gpu_entry(trace, host, device, window);
        profile.gpu->hta = hta.value_or(GpuTimes{});
        profile.idle_during = idle_by_phase(phases, gaps);
        profile.queued_during = idle_by_phase(phases, queued);
    }
    profile.copies = std::move(device.copies);
    profile.collectives = std::move(device.collectives);
    optimizer_facts(profile.operators, rank.facts.train);
    if (trace.peak_device_bytes && !rank.steps.empty()) {
        rank.intervals.push_back({.first_step = rank.steps.front().step,
                                  .last_step = rank.steps.back().step,
                                  .seconds = to_us(all.end - all.start) / 1e6,
                                  .device_bytes = trace.peak_device_bytes});
    }
    rank.profile = std::move(profile);
    return rank;
}

RunRecords read_traces(std::span<const std::filesystem::path> paths, std::size_t listed) {
    if (paths.empty()) {
        throw InvalidArgument({.where = "traces", .expected = "at least one file", .got = "none"});
    }
    RunRecords records{.kind = "trace"};
    std::map<std::string, std::vector<RankRecords>, NaturalLess> processes;  // explicit ranks first, then by name
    for (std::size_t i = 0; i < paths.size(); ++i) {
        const std::filesystem::path& path = paths[i];
        std::vector<TraceEvents> windows;
        try {
            windows = recorded_windows(read_trace_file(path));
        } catch (const DataError& error) {
            if (i + listed < paths.size() || (i + 1 == paths.size() && processes.empty())) {
                throw;
            }
            records.problems.push_back(fmt::format("left out: {}", error.what()));
            continue;
        }
        const TraceEvents& trace = windows.front();
        std::ranges::copy(trace.problems, std::back_inserter(records.problems));
        if (trace_steps(trace).empty()) {
            records.problems.push_back(
                fmt::format("{}: no step is marked, so the whole trace counts as one; prof.step() marks steps in a "
                            "profile with a `schedule`",
                            path.filename().string()));
        }
        const std::string worker = worker_of(path.filename().string());
        const std::string process = trace.rank       ? fmt::format("0 {}", *trace.rank)
                                    : worker.empty() ? fmt::format("2 {}", processes.size())
                                                     : fmt::format("1 {}", worker);
        for (TraceEvents& window : windows) {
            processes[process].push_back(rank_records(std::move(window)));
        }
    }
    std::set<int> ranks;
    for (auto& [process, parts] : processes) {
        RankRecords rank = merged_parts(std::move(parts));
        while (!ranks.insert(rank.facts.rank).second) {
            ++rank.facts.rank;
        }
        records.ranks.push_back(std::move(rank));
    }
    std::ranges::stable_sort(records.ranks, {}, [](const RankRecords& rank) { return rank.facts.rank; });
    join_ranks(records);
    return records;
}

void add_traces(RunRecords& records, std::span<const std::filesystem::path> paths, std::size_t listed) {
    RunRecords read = read_traces(paths, listed);
    for (RankRecords& traced : read.ranks) {
        const auto rank =
            std::ranges::find(records.ranks, traced.facts.rank, [](const auto& of) { return of.facts.rank; });
        if (rank == records.ranks.end()) {
            read.problems.push_back(
                fmt::format("a trace is of rank {}, which the run does not have", traced.facts.rank));
        } else {
            rank->profile = std::move(traced.profile);
        }
    }
    std::ranges::move(read.problems, std::back_inserter(records.problems));
}

}  // namespace stoker

#include "stoker/diagnose/torch_trace/merge_parts.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "stoker/diagnose/phase_sums.h"

namespace stoker {
namespace {

bool remove_suffix(std::string& text, std::string_view suffix) {
    const bool found = text.ends_with(suffix);
    text.resize(text.size() - (found ? suffix.size() : 0));
    return found;
}

// The part of `text` behind the last `mark`, if it is a number.
std::string_view number_behind(std::string_view text, char mark) {
    const std::size_t at = text.rfind(mark);
    const std::string_view number = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
    return number.find_first_not_of("0123456789") == std::string_view::npos ? number : std::string_view();
}

// Adds each entry of `from` to the one of `to` with the same key, or appends it.
template <typename Entry, typename Key, typename Add>
void merge(std::vector<Entry>& to, const std::vector<Entry>& from, Key key, Add add) {
    std::map<decltype(key(to.front())), std::size_t> places;
    for (std::size_t i = 0; i < to.size(); ++i) {
        places.emplace(key(to[i]), i);
    }
    for (const Entry& entry : from) {
        const auto [found, fresh] = places.emplace(key(entry), to.size());
        if (fresh) {
            to.push_back(entry);
        } else {
            add(to[found->second], entry);
        }
    }
}

void add_gpu_times(GpuTimes& to, const GpuTimes& from) {
    to.compute_us += from.compute_us;
    to.non_compute_us += from.non_compute_us;
    to.idle_us += from.idle_us;
    merge(
        to.idle, from.idle, [](const GpuTimes::Idle& idle) { return idle.stream; },
        [](GpuTimes::Idle& a, const GpuTimes::Idle& b) {
            a.host_wait_us += b.host_wait_us;
            a.kernel_wait_us += b.kernel_wait_us;
            a.other_us += b.other_us;
        });
}

void add_gpu(GpuEntry& to, const GpuEntry& from) {
    add_gpu_times(to.times, from.times);
    add_gpu_times(to.hta, from.hta);
    if (from.launch_delay_us && (!to.launch_delay_us || from.kernels > to.kernels)) {
        to.launch_delay_us = from.launch_delay_us;  // a median: that of the larger part
    }
    to.kernels += from.kernels;
    to.graph_kernels += from.graph_kernels;
    to.kernel_us += from.kernel_us;
    to.tensor_core_us += from.tensor_core_us;
}

void add_operators(ProfileEntry& to, const ProfileEntry& from) {
    merge(
        to.operators, from.operators,
        [](const OperatorEntry& op) { return std::tuple(op.name, op.shapes, op.types, op.range, op.place); },
        [](OperatorEntry& a, const OperatorEntry& b) {
            a.count += b.count;
            a.self_us += b.self_us;
            a.device_us += b.device_us;
            a.kernels += b.kernels;
        });
    merge(
        to.sequences, from.sequences, [](const SequenceEntry& entry) { return std::tuple(entry.kind, entry.place); },
        [](SequenceEntry& a, const SequenceEntry& b) {
            a.count += b.count;
            a.us += b.us;
        });
}

void add_transfers(ProfileEntry& to, const ProfileEntry& from) {
    merge(
        to.copies, from.copies, [](const CopyEntry& copy) { return std::tuple(copy.kind, copy.pageable); },
        [](CopyEntry& a, const CopyEntry& b) {
            a.count += b.count;
            a.bytes += b.bytes;
            a.us += b.us;
            a.overlapped_us += b.overlapped_us;
        });
    merge(
        to.collectives, from.collectives,
        [](const CollectiveEntry& entry) { return std::tuple(entry.name, entry.backend, entry.on_device, entry.half); },
        [](CollectiveEntry& a, const CollectiveEntry& b) {
            a.count += b.count;
            a.us += b.us;
            a.exposed_us += b.exposed_us;
        });
    merge(
        to.syncs, from.syncs, [](const SyncEntry& sync) { return sync.place; },
        [](SyncEntry& a, const SyncEntry& b) {
            a.count += b.count;
            a.us += b.us;
            a.idle_us =
                a.idle_us || b.idle_us ? std::optional(a.idle_us.value_or(0) + b.idle_us.value_or(0)) : std::nullopt;
        });
    std::ranges::stable_sort(to.syncs, std::greater<>(), &SyncEntry::us);
}

void add_profile(ProfileEntry& to, const ProfileEntry& from) {
    to.span_us += from.span_us;
    to.steps += from.steps;
    add_operators(to, from);
    add_transfers(to, from);
    if (to.gpu && from.gpu) {
        add_gpu(*to.gpu, *from.gpu);
    } else if (from.gpu) {
        to.gpu = from.gpu;
    }
    if (from.idle_during) {
        to.idle_during = to.idle_during.value_or(PhaseTimes{});
        add_times(*to.idle_during, *from.idle_during);
    }
    if (from.queued_during) {
        to.queued_during = to.queued_during.value_or(PhaseTimes{});
        add_times(*to.queued_during, *from.queued_during);
    }
}

void add_part(RankRecords& to, RankRecords part) {
    const std::int64_t last = to.steps.empty() ? 0 : to.steps.back().step;
    const std::int64_t first = part.steps.empty() ? last + 1 : part.steps.front().step;
    const std::int64_t shift = first <= last ? last + 1 - first : 0;
    for (StepEntry& step : part.steps) {
        step.step += shift;
        to.steps.push_back(step);
    }
    for (IntervalEntry& interval : part.intervals) {
        interval.first_step += shift;
        interval.last_step += shift;
        to.intervals.push_back(std::move(interval));
    }
    if (to.profile && part.profile) {
        add_profile(*to.profile, *part.profile);
    } else if (part.profile) {
        to.profile = std::move(part.profile);
    }
    RunFacts& facts = to.facts;
    facts.world_size = std::max(facts.world_size, part.facts.world_size);
    if (facts.device.type == "cpu") {
        facts.device = part.facts.device;
    }
    facts.data.workers = facts.data.workers ? facts.data.workers : part.facts.data.workers;
    if (facts.train.optimizer.empty()) {
        facts.train = part.facts.train;
    }
}

}  // namespace

std::string worker_of(std::string file) {
    remove_suffix(file, ".gz");
    if (!remove_suffix(file, ".pt.trace.json")) {
        return {};
    }
    if (const std::string_view time = number_behind(file, '.'); !time.empty()) {
        file.resize(file.size() - time.size() - 1);
    }
    return number_behind(file, '_').empty() ? std::string() : file;
}

RankRecords merged_parts(std::vector<RankRecords> parts) {
    std::ranges::stable_sort(parts, {}, [](const RankRecords& part) {
        return part.steps.empty() ? std::int64_t{0} : part.steps.front().step;
    });
    RankRecords rank = std::move(parts.front());
    for (std::size_t i = 1; i < parts.size(); ++i) {
        add_part(rank, std::move(parts[i]));
    }
    return rank;
}

}  // namespace stoker

#include "stoker/diagnose/torch_trace/phases.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

namespace stoker {
namespace {

// From the one that yields to all others to the one that wins.
constexpr std::array kPriority = {Phase::unmeasured, Phase::communication, Phase::forward, Phase::backward,
                                  Phase::optimizer,  Phase::copy,          Phase::sync,    Phase::wait};

std::size_t rank_of(Phase phase) {
    return static_cast<std::size_t>(std::ranges::find(kPriority, phase) - kPriority.begin());
}

bool contains(const std::vector<TimeRange>& ranges, std::int64_t time) {
    const auto after = std::ranges::upper_bound(ranges, time, {}, &TimeRange::start);
    return after != ranges.begin() && std::prev(after)->end > time;
}

// Backward passes: functions of autograd with nothing of the training thread's own between them.
std::vector<TimeRange> backward_passes(const HostWalk& host, const std::vector<TimeRange>& apart) {
    std::vector<TimeRange> passes;
    for (const TimeRange& function : joined(host.backward)) {
        if (!passes.empty()) {
            const std::int64_t gap = passes.back().end;
            auto root = std::ranges::lower_bound(host.roots, gap, {}, [](const RootOp& op) { return op.time.start; });
            while (root != host.roots.end() && root->backward) {
                ++root;
            }
            const bool alone = root == host.roots.end() || root->time.start >= function.start;
            const auto other = std::ranges::lower_bound(apart, gap, {}, &TimeRange::start);
            if (alone && (other == apart.end() || other->start >= function.start)) {
                passes.back().end = std::max(passes.back().end, function.end);
                continue;
            }
        }
        passes.push_back(function);
    }
    return passes;
}

// Forward passes, which reach from their first operator to a backward pass.
class ForwardPasses {
  public:
    ForwardPasses(const std::vector<TimeRange>& passes, const std::vector<TimeRange>& apart,
                  std::vector<PhaseRange>& ranges)
        : passes_(passes), apart_(apart), ranges_(ranges) {}

    void add(const TimeRange& op) {
        close_until(op.start);
        if (begin_ < last_apart(op.start)) {
            begin_ = op.start;  // a range in between, such as the loader's, begins a new one
        }
        ranges_.push_back({Phase::forward, op});
    }

    // Ends at the backward passes that begin by then.
    void close_until(std::int64_t time) {
        for (; next_ < passes_.size() && passes_[next_].start <= time; ++next_) {
            const std::int64_t end = passes_[next_].start;
            if (begin_ != kNone && begin_ >= last_apart(end)) {
                ranges_.push_back({Phase::forward, {begin_, end}});
            }
            begin_ = kNone;
        }
    }

  private:
    static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::min();

    // The end of the last range apart before `time`, which begins the stretch around `time`.
    std::int64_t last_apart(std::int64_t time) const {
        const auto after = std::ranges::upper_bound(apart_, time, {}, &TimeRange::start);
        return after == apart_.begin() ? kNone + 1 : std::min(std::prev(after)->end, time);
    }

    const std::vector<TimeRange>& passes_;
    const std::vector<TimeRange>& apart_;
    std::vector<PhaseRange>& ranges_;
    std::size_t next_ = 0;
    std::int64_t begin_ = kNone;
};

// The training thread's own operators: forward and copies.
void add_roots(const HostWalk& host, const std::vector<TimeRange>& passes, const std::vector<TimeRange>& apart,
               std::vector<PhaseRange>& ranges) {
    ForwardPasses forward(passes, apart, ranges);
    for (const RootOp& root : host.roots) {
        if (root.copies_to_device) {
            ranges.push_back({Phase::copy, root.time});
        } else if (!root.backward && !contains(apart, root.time.start)) {
            forward.add(root.time);
        }
    }
    forward.close_until(std::numeric_limits<std::int64_t>::max());
}

void add(Phase phase, const std::vector<TimeRange>& times, std::vector<PhaseRange>& ranges) {
    for (const TimeRange& time : times) {
        ranges.push_back({phase, time});
    }
}

void add_syncs(const TraceEvents& trace, const HostWalk& host, std::vector<PhaseRange>& ranges) {
    for (const BlockingCall& call : host.blocking) {
        if (call.copies_to_device || !call.training) {
            continue;
        }
        const std::string_view name = trace.names[call.name];
        const bool reads_value = name == "aten::item" || name == "aten::_local_scalar_dense";
        const TraceEvent& root = trace.events[call.root];
        ranges.push_back({Phase::sync, reads_value ? TimeRange{root.start_ns, root.end_ns()} : call.time});
    }
}

struct Edge {
    std::int64_t time = 0;
    std::size_t rank = 0;
    int change = 0;
};

std::vector<PhaseRange> flatten(const std::vector<PhaseRange>& ranges, const TimeRange& window) {
    std::vector<Edge> edges = {{window.start, 0, 1}, {window.end, 0, -1}};
    for (const PhaseRange& range : ranges) {
        const std::int64_t start = std::max(range.time.start, window.start);
        const std::int64_t end = std::min(range.time.end, window.end);
        if (start < end) {
            edges.push_back({start, rank_of(range.phase), 1});
            edges.push_back({end, rank_of(range.phase), -1});
        }
    }
    std::ranges::sort(edges, {}, &Edge::time);
    std::array<std::int64_t, kPriority.size()> open{};
    std::vector<PhaseRange> flat;
    std::int64_t since = window.start;
    for (const Edge& edge : edges) {
        if (edge.time > since) {
            std::size_t top = kPriority.size() - 1;
            while (top > 0 && open[top] == 0) {
                --top;
            }
            if (!flat.empty() && flat.back().phase == kPriority[top]) {
                flat.back().time.end = edge.time;
            } else {
                flat.push_back({kPriority[top], {since, edge.time}});
            }
            since = edge.time;
        }
        open[edge.rank] += edge.change;
    }
    return flat;
}

}  // namespace

std::vector<TimeRange> joined(std::vector<TimeRange> ranges) {
    std::ranges::sort(ranges, {}, &TimeRange::start);
    std::vector<TimeRange> out;
    for (const TimeRange& range : ranges) {
        if (!out.empty() && range.start <= out.back().end) {
            out.back().end = std::max(out.back().end, range.end);
        } else {
            out.push_back(range);
        }
    }
    return out;
}

std::int64_t covered_ns(const std::vector<TimeRange>& ranges, const TimeRange& time) {
    auto range = std::ranges::lower_bound(ranges, time.start, {}, &TimeRange::end);
    std::int64_t sum = 0;
    for (; range != ranges.end() && range->start < time.end; ++range) {
        sum += std::min(range->end, time.end) - std::max(range->start, time.start);
    }
    return sum;
}

std::vector<PhaseRange> phase_ranges(const TraceEvents& trace, const HostWalk& host, const TimeRange& window) {
    std::vector<TimeRange> apart = host.waits;
    apart.insert(apart.end(), host.optimizer.begin(), host.optimizer.end());
    apart = joined(std::move(apart));
    const std::vector<TimeRange> passes = backward_passes(host, apart);
    std::vector<PhaseRange> ranges;
    add(Phase::wait, host.waits, ranges);
    add(Phase::optimizer, host.optimizer, ranges);
    add(Phase::communication, host.collectives, ranges);
    add(Phase::backward, passes, ranges);
    add_roots(host, passes, apart, ranges);
    add_syncs(trace, host, ranges);
    return flatten(ranges, window);
}

PhaseTimes phase_times(const std::vector<PhaseRange>& ranges, const TimeRange& part) {
    PhaseTimes times{};
    auto range = std::ranges::lower_bound(ranges, part.start, {}, [](const PhaseRange& r) { return r.time.end; });
    for (; range != ranges.end() && range->time.start < part.end; ++range) {
        const std::int64_t ns = std::min(range->time.end, part.end) - std::max(range->time.start, part.start);
        times[static_cast<std::size_t>(range->phase)] += std::chrono::nanoseconds(std::max<std::int64_t>(ns, 0));
    }
    return times;
}

}  // namespace stoker

// One pass over the host's threads: operators, which call launched which work of the GPU, waits of the host for it, and
// the ranges from which the phases of a step are made.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "stoker/diagnose/torch_trace/host_threads.h"
#include "stoker/diagnose/torch_trace/trace_events.h"
#include "stoker/records/records.h"

namespace stoker {

// An operator that no other operator called, on the training thread.
struct RootOp {
    std::uint32_t event = 0;
    TimeRange time = {};
    std::uint32_t place = 0;  // in HostWalk::places; 0: unknown
    bool copies_to_device = false;
    bool launches_kernels = false;
    bool backward = false;  // autograd runs it
    double bias_us = 0;     // the GPU's time in `aten::add_` within it
};

// A call that waits for the device.
struct BlockingCall {
    TimeRange time = {};
    std::uint32_t name = 0;         // of the operator around it, else of the call
    std::uint32_t place = 0;        // in HostWalk::places
    std::uint32_t root = 0;         // event of the operator around it, or of the call: one wait may be several calls
    bool training = false;          // on the training thread
    bool copies_to_device = false;  // the wait belongs to a copy to the device
};

struct HostWalk {
    std::vector<OperatorEntry> operators = {};
    std::vector<RootOp> roots = {};  // in order of time
    std::vector<BlockingCall> blocking = {};
    std::vector<TimeRange> waits = {};        // for the loader, on the training thread
    std::vector<TimeRange> optimizer = {};    // Optimizer.step and Optimizer.zero_grad
    std::vector<TimeRange> backward = {};     // functions that autograd runs, on any thread
    std::vector<TimeRange> collectives = {};  // on any thread
    bool single_process_loader = false;
    std::unordered_map<std::int64_t, TimeRange> launches = {};  // correlation -> the call
    TextTable places = {};
};

// `operators` counts those that begin in `window`, and the times within it.
HostWalk walk_host(const TraceEvents& trace, const std::vector<HostThread>& threads, std::size_t training,
                   const TimeRange& window);

}  // namespace stoker

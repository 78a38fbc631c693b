// Operators in a row that something faster could replace.
#pragma once

#include <span>
#include <vector>

#include "stoker/diagnose/torch_trace/host_walk.h"
#include "stoker/diagnose/torch_trace/trace_steps.h"

namespace stoker {

// Among the operators that the training thread calls itself within `window`, the loader's excluded:
// - "indexing loop": ten or more `aten::select` of equal shape, a few operators apart: `for i in range(n): x[i] ...`;
// - "conv bias before batch norm": a convolution with a bias whose result the next operator normalises;
// - "filled on the host, then copied": `torch.zeros(...).to(device)`.
// None reaches from one step into the next.
std::vector<SequenceEntry> find_sequences(const TraceEvents& trace, const HostWalk& host,
                                          std::span<const TraceStep> steps, const TimeRange& window);

}  // namespace stoker

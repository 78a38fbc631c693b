// Reads arbitrary bytes as a trace of torch.profiler, plain or gzip, makes records of it and judges them.
#include <utility>

#include "fuzz/promise.h"
#include "stoker/base/error.h"
#include "stoker/diagnose/diagnose.h"
#include "stoker/diagnose/torch_trace/read_traces.h"
#include "stoker/diagnose/torch_trace/trace_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace stoker;
    using namespace stoker::fuzz;
    try {
        TraceEvents trace = read_trace_bytes(as_input(data, size), "trace");
        require(trace.events.size() <= static_cast<std::size_t>(trace.read));
        require(static_cast<std::size_t>(trace.read) <= size * 1100);
        require(trace.problems.size() <= 3);
        RunRecords records{.kind = "trace", .problems = trace.problems};
        records.ranks.push_back(rank_records(std::move(trace)));
        for (const StepEntry& step : records.ranks[0].steps) {
            for (const auto time : step.host.times) {
                require(time.count() >= 0);
            }
        }
        require(!to_json(records, diagnose(records)).empty());
    } catch (const DataError&) {  // NOLINT(bugprone-empty-catch): no trace
    }
    return 0;
}

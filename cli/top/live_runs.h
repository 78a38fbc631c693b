// The training runs that processes of this host are writing, and how fast they go: read from the ends of their
// metrics.jsonl.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/monitor/process_counters.h"

namespace stoker::cli {

// The figures of the last steps in a metrics.jsonl. Absent: the steps do not have them.
struct RunTail {
    std::int64_t step = 0;  // the last one
    std::int64_t epoch = 0;
    std::int64_t steps = 0;                        // that the figures below are means of
    double step_seconds = 0;                       // median
    double wait_share = 0;                         // of the steps' time, waiting for data
    std::optional<double> images_per_second = {};  // of all ranks: a step's samples are
    std::optional<double> loss = {};               // the latest that was recorded
    std::optional<double> ready_batches = {};      // mean of the finished batches in the loader's ring
};

// The lines of the end of a metrics.jsonl: the first may be cut, and so may the last. Other lines are skipped. Empty
// without a step.
std::optional<RunTail> parse_run_tail(std::string_view text);

struct LiveRun {
    std::int64_t pid = 0;
    std::string path;                            // of the run folder, as its process sees it; any bytes
    std::optional<RunTail> tail = {};            // none before the first lines are written
    std::optional<double> written_seconds = {};  // ago; lines are written every 64 KiB
};

// The runs of `processes` whose open files this user may see: a run's process holds a lock on its folder.
std::vector<LiveRun> find_live_runs(std::span<const ProcessRates> processes);

}  // namespace stoker::cli

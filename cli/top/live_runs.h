// The training runs that processes of this host are writing, and how fast they go. The first reading takes the end of
// their metrics.jsonl, later ones take the new lines.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "stoker/monitor/process_counters.h"
#include "stoker/records/record_reader.h"

namespace stoker::cli {

// What the last steps of a metrics.jsonl say. Absent: they do not say it.
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

struct LiveRun {
    std::int64_t pid = 0;
    std::string path;                            // of the run folder, as its process sees it; any bytes
    std::optional<RunTail> tail = {};            // none before the first lines are written
    std::optional<double> written_seconds = {};  // ago; lines are written every 64 KiB
};

class LiveRuns {
  public:
    // The runs of `processes` whose open files this user may see: a run's process holds a lock on its folder.
    std::vector<LiveRun> find(std::span<const ProcessRates> processes);

  private:
    // What has been read of a metrics.jsonl.
    struct Tail {
        std::uint64_t end = 0;              // of the last complete line
        std::vector<StepEntry> steps = {};  // the last ones
    };
    std::optional<LiveRun> run_of(std::int64_t pid);
    void read_tail(const std::string& metrics, LiveRun& run, Tail& tail);

    std::map<std::pair<std::int64_t, std::string>, Tail> tails_;  // by process and folder
    RecordReader reader_{"step"};
};

}  // namespace stoker::cli

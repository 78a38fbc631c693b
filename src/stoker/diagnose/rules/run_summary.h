// A rank's records as means over its steady steps: the first steps, which fill the pipeline, are left out.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/diagnose/finding.h"
#include "stoker/diagnose/judged_steps.h"
#include "stoker/records/records.h"

namespace stoker {

struct RunSummary : JudgedSteps {
    double seconds = 0;                   // of the account
    std::array<double, kPhases> share{};  // of `seconds`
    std::optional<StageTimes> workers = {};
    double worker_span = 0;                    // seconds in which `workers` was measured
    std::optional<double> cores = {};          // that the process may use, for this rank
    std::optional<double> process_cores = {};  // that the process kept busy, mean
    std::optional<double> busy_share = {};     // of the cores' time, by all processes
    std::optional<double> ready = {};          // mean number of finished batches when a step asked
    double start_share = 0;                    // of `seconds`: worker processes were started and ended
    double core_wait_share = 0;                // of `seconds`: the training thread had no core
    // The share of samples of the GPU after a step in which it was done within a tenth of a micro-batch. Empty if few
    // were.
    std::optional<double> gpu_done_share = {};

    // The wait that the device did not hide: a host that runs ahead of a GPU waits here what it saves in a later sync.
    double input_wait() const {
        const double sync = on_cpu ? 0 : share[static_cast<std::size_t>(Phase::sync)];
        return std::max(0.0, share[static_cast<std::size_t>(Phase::wait)] - sync);
    }
    // Enough steps and time to judge shares by.
    bool long_enough() const { return steps >= 10 && seconds >= 0.3; }
    // The GPU has worked off all launches when the next step begins, and not because the host waited for it within the
    // step. Such waits may also be hidden in what is not measured.
    bool gpu_is_ahead() const {
        return gpu_done_share.value_or(0) >= 0.9 &&
               of(Phase::sync) + of(Phase::communication) + of(Phase::unmeasured) <= 0.2;
    }
    double of(Phase phase) const { return share[static_cast<std::size_t>(phase)]; }
    bool on_cpu = true;  // the model trains on the host's cores

    // Seconds of workers' time, without the time in which they had nothing to do.
    double worker_busy() const;
    double worker_cpu() const;
    double worker_seconds(Stage stage) const;
    // The share of the workers' time in which they had nothing to do; empty without workers.
    std::optional<double> blocked_share() const;
    // Cores that neither this process nor another one used; empty if it was not measured.
    std::optional<double> free_cores() const;
};

RunSummary summarize(const RankRecords& rank);

// The records of a run, which must outlive this, with the summary of each rank: the input of a rule.
class RunView {
  public:
    explicit RunView(const RunRecords& run);
    const RunSummary& summary(const RankRecords& rank) const {
        return summaries_.at(static_cast<std::size_t>(&rank - ranks.data()));
    }
    // The first with this number.
    const RankRecords& rank(int number) const;
    // Whether the recipe is known to have this value.
    bool sets(const std::string& key, std::string_view value) const;

    const std::string& kind;
    const std::vector<RankRecords>& ranks;
    const std::map<std::string, std::string>& recipe;

  private:
    std::vector<RunSummary> summaries_;
};

// True for a run that `python -m stoker watch` recorded: its loaders have processes, and not all of its waits are seen.
bool in_python(const RankRecords& rank);

// In a step.
int micro_batches(const RankRecords& rank);

// Whether the data are packed already.
bool is_packed(const RankRecords& rank);

// The speed of torch's threads in small operations, against one thread.
double thread_speedup(const RankRecords& rank);

// The argument that makes the run's optimizer, one of torch.optim's, faster: "fused" or "foreach". Empty if nothing
// does: some on a CPU, and optimizers that torch does not have.
std::string_view faster_kernel(const RankRecords& rank);

// Whether fp16 or bf16 is among the types of an operator's inputs.
bool is_half(std::string_view types);

// The share of the time that worker processes cost beyond the cores; 0 with up to two for each core.
double lost_to_extra_workers(const RankRecords& rank, const RunSummary& run);

// The factor of throughput if a share of the time is saved, as an interval: `least` of it at worst, all at best.
Gain gain_of_share(double share, double least = 0.5);

}  // namespace stoker

#include "stoker/diagnose/rules/wait_cause.h"

#include <algorithm>
#include <cmath>

#include "stoker/diagnose/rules/lost_time.h"

namespace stoker {
namespace {

constexpr double kBusyWorkers = 0.7;   // of the time that the workers could work: they are what the trainer waits for
constexpr double kStageShare = 0.4;    // of the workers' busy time: the stage to work on
constexpr double kSaturated = 0.85;    // of the cores
constexpr double kMoreWorkers = 1.15;  // times as many: fewer are named where no stage is
constexpr double kFreeCore = 0.3;      // of a core: room for another worker
constexpr int kShortQueue = 2;
constexpr double kHandover = 300e-6;  // seconds: about what it costs to get a batch from a worker process of Python

bool loads_itself(const RankRecords& rank) {
    return rank.facts.data.workers == 0;
}

bool has_room_for_workers(const RankRecords& rank, const RunSummary& run, double times) {
    const int workers = rank.facts.data.workers.value_or(0);
    return workers > 0 && useful_workers(run) > workers && useful_workers(run) >= times * workers &&
           run.free_cores().value_or(0) >= kFreeCore;
}

// The workers wait in reads, without a core. If all cores are busy, they may as well wait for a core.
bool storage_is_slow(const RunSummary& run) {
    const double read = run.worker_seconds(Stage::read);
    const double off_core = run.worker_busy() - run.worker_cpu();
    return read_share(run) >= kStageShare && !saturated(run) && off_core >= read / 2;
}

WaitCause first_cause(const RankRecords& rank, const RunSummary& run) {
    if (run.steps == 0 || run.input_wait() < kWaitWarn || lost_to_extra_workers(rank, run) >= kWaitWarn) {
        return WaitCause::none;
    }
    if (loads_itself(rank)) {
        return in_python(rank) && median_wait(rank, run) < kHandover ? WaitCause::none : WaitCause::no_workers;
    }
    if (run.start_share >= std::max(kWaitWarn, run.input_wait() / 2)) {
        return WaitCause::startup;
    }
    if (!run.workers) {
        return WaitCause::unknown;
    }
    if (!workers_are_busy(rank, run)) {
        return rank.facts.data.prefetch.value_or(kShortQueue + 1) <= kShortQueue ? WaitCause::prefetch
                                                                                 : WaitCause::unknown;
    }
    if (storage_is_slow(run)) {
        return WaitCause::storage;
    }
    if (has_room_for_workers(rank, run, kMoreWorkers) && !saturated(run)) {
        return WaitCause::few_workers;
    }
    if (augment_share(run) >= std::max(kStageShare, decode_share(run))) {
        return WaitCause::augment;
    }
    if (decode_share(run) >= kStageShare) {
        return WaitCause::decode;
    }
    return has_room_for_workers(rank, run, 1) ? WaitCause::few_workers : WaitCause::unknown;
}

}  // namespace

WaitCause wait_cause(const RankRecords& rank, const RunSummary& run) {
    const WaitCause cause = first_cause(rank, run);
    return cause == WaitCause::unknown && !waits_throughout(rank, run, kWaitWarn) ? WaitCause::none : cause;
}

double worker_capacity(const RankRecords& rank, const RunSummary& run) {
    const double workers = rank.facts.data.workers.value_or(1);
    return std::min(workers, run.cores.value_or(workers)) * run.worker_span;
}

bool workers_are_busy(const RankRecords& rank, const RunSummary& run) {
    if (in_python(rank)) {  // besides its stages, a worker process sends its batches through pipes
        return run.blocked_share().value_or(0) <= 1 - kBusyWorkers;
    }
    return run.worker_busy() >= kBusyWorkers * worker_capacity(rank, run);
}

double share_of_workers(const RunSummary& run, double seconds) {
    return run.worker_busy() > 0 ? seconds / run.worker_busy() : 0;
}

double read_share(const RunSummary& run) {
    return share_of_workers(run, run.worker_seconds(Stage::read));
}

double decode_share(const RunSummary& run) {
    return share_of_workers(run, run.worker_seconds(Stage::entropy) + run.worker_seconds(Stage::pixels));
}

double augment_share(const RunSummary& run) {
    return share_of_workers(run, run.worker_seconds(Stage::augment));
}

bool saturated(const RunSummary& run) {
    return run.busy_share && *run.busy_share >= kSaturated;
}

bool waits_asleep(const RunSummary& run) {
    const double wait = run.input_wait();
    return run.process_cores && wait - run.core_wait_share - *run.process_cores >= wait / 2;
}

int useful_workers(const RunSummary& run) {
    return std::max(1, static_cast<int>(std::floor(run.cores.value_or(1))));
}

Gain gain_without_wait(const RunSummary& run, double speedup, double saved) {
    const auto with_cores = [&](double cores) {
        double floor = 1 - run.input_wait();
        if (run.process_cores && run.worker_span > 0 && cores > 0) {
            floor = std::max(floor, (*run.process_cores - saved / run.worker_span) / cores);
        }
        return std::min(1 / std::clamp(floor, 0.01, 1.0), std::max(speedup, 1.0));
    };
    const double cores = run.cores.value_or(0);
    const auto free = run.free_cores();
    const double left = with_cores(free ? std::min(cores, run.process_cores.value_or(0) + *free) : cores);
    return {.low = 1 + (left - 1) / 2, .expected = 1 + (left - 1) * 0.9, .high = with_cores(cores)};
}

double speedup_of(double saved_share) {
    return 1 / (1 - std::clamp(saved_share, 0.0, 0.99));
}

}  // namespace stoker

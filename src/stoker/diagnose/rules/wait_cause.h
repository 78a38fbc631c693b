// Why the training thread waits for batches, and the gain if it did not. The loader's own clocks decide: a
// stage is slow only if the workers spend their time in it and are never idle.
#pragma once

#include <cstdint>

#include "stoker/diagnose/finding.h"
#include "stoker/diagnose/rules/run_summary.h"
#include "stoker/records/records.h"

namespace stoker {

// xprof's limits: below 5 % of the step the input is fine, from 20 % on the run is bound by it.
inline constexpr double kWaitWarn = 0.05;
inline constexpr double kWaitCritical = 0.20;

// The first that fits: later ones are worth a fix only after it.
enum class WaitCause : std::uint8_t {
    none,
    no_workers,
    startup,
    prefetch,
    storage,
    few_workers,
    augment,
    decode,
    unknown
};

WaitCause wait_cause(const RankRecords& rank, const RunSummary& run);

// Seconds that the workers could work while they were measured. More workers than cores take turns, so their time
// counts only as far as there are cores.
double worker_capacity(const RankRecords& rank, const RunSummary& run);
bool workers_are_busy(const RankRecords& rank, const RunSummary& run);

// Shares of the workers' busy time.
double share_of_workers(const RunSummary& run, double seconds);
double read_share(const RunSummary& run);
double decode_share(const RunSummary& run);
double augment_share(const RunSummary& run);

// Whether all cores are busy.
bool saturated(const RunSummary& run);
// At least half of the wait for data neither used a core nor waited for one: the data set sleeps, or waits for a disk
// or a server.
bool waits_asleep(const RunSummary& run);
// Workers that the cores can keep busy.
int useful_workers(const RunSummary& run);

// Throughput if the wait vanished as far as the loader and the cores allow. `speedup`: how many times as fast the
// loader becomes. A CPU shares its cores between loading and training; `saved` are core seconds of the workers that the
// fix saves. At best the run also gets the cores that other processes use.
Gain gain_without_wait(const RunSummary& run, double speedup, double saved = 0);

// The speedup of a loader that saves this share of its workers' time.
double speedup_of(double saved_share);

}  // namespace stoker

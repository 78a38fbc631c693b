// The share of a rank's time that could be won where the training thread is in a phase. On a GPU that is the time in
// which the GPU was idle meanwhile: a host that waits while kernels run loses nothing.
#pragma once

#include "stoker/diagnose/finding.h"
#include "stoker/diagnose/rules/run_summary.h"
#include "stoker/records/records.h"

namespace stoker {

bool on_gpu(const RankRecords& rank);

// As a share of the profile's span, in [0, 1]; 0 without a profile.
double share_of_span(const RankRecords& rank, double us);

// All of the GPU's idle time, as a share of the profile's span. 0 without a GPU's profile.
double idle_share(const RankRecords& rank);

// From the GPU's idle time where a profile has it, without gaps before work that was launched already; else from the
// account.
double lost_share(const RankRecords& rank, const RunSummary& run, Phase phase);

// The severity of time lost on the GPU: critical from a fifth of the time on, as for the input.
Severity severity_of_lost(double share);

// The share lost in waits for the GPU, with the idle time after them until the next work arrives.
double lost_to_syncs(const RankRecords& rank, const RunSummary& run);

// The share in which the GPU was idle because launches came late. 0 without a GPU's profile.
double lost_to_launches(const RankRecords& rank, const RunSummary& run);

// The median step's wait for its batch, in seconds. A busy machine's delays of some steps do not count.
double median_wait(const RankRecords& rank, const RunSummary& run);

// Whether waits take `least` of the time in most of five parts of the run: one stall is the machine's.
bool waits_throughout(const RankRecords& rank, const RunSummary& run, double least);

// To which the profile's counts belong, else those of the rank; at least 1.
double steps_of(const RankRecords& rank);

}  // namespace stoker

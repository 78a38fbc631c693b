// The text and the fix of a finding for its audience. Written once, when rank, severity and gain are known.
#pragma once

#include "stoker/diagnose/finding.h"
#include "stoker/diagnose/rules/run_summary.h"

namespace stoker {

Audience audience_of(const RunRecords& records);

// Fills `text` and `fix` from the evidence and the run's facts, without changes that the recipe has already.
void advise(Finding& finding, const RunView& run, Audience audience);

// For a run that is too short to judge; `impression`: it has findings.
Verdict too_short_verdict(const RunView& run, Audience audience, bool impression);

// For a trace without findings that has operators alone.
Verdict no_ranges_verdict();

}  // namespace stoker

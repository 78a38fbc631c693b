// The words and the fix of a finding, for who reads it. Written once, when rank, severity and gain are known.
#pragma once

#include "stoker/diagnose/finding.h"
#include "stoker/diagnose/rules/run_summary.h"

namespace stoker {

Audience audience_of(const RunRecords& records);

// Fills `text` and `fix` from the finding's facts and those of the run. A change that the recipe has already is no fix.
void advise(Finding& finding, const JudgedRun& run, Audience audience);

// Of a run that is too short to judge; `impression`: it has findings.
Verdict too_short_verdict(const JudgedRun& run, Audience audience, bool impression);

}  // namespace stoker

// The fixes of runs that `python -m stoker watch` recorded: lines of Python instead of recipe keys.
#pragma once

#include "stoker/diagnose/rules/run_summary.h"

namespace stoker {

// Replaces what the finding says of recipes by what to change in a PyTorch program.
void advise_in_python(Finding& finding, const RankRecords& rank, const RunSummary& run);

}  // namespace stoker

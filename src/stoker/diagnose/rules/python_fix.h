// The fixes of runs that `python -m stoker watch` recorded: lines of Python instead of recipe keys.
#pragma once

#include <string>

#include "stoker/diagnose/rules/run_summary.h"

namespace stoker {

// Replaces what the finding says of recipes by what to change in a PyTorch program.
void advise_in_python(Finding& finding, const RankRecords& rank, const RunSummary& run);

// The argument that makes the run's optimizer, one of torch.optim's, faster: "fused" or "foreach". Empty where nothing
// does: some on a CPU, and optimizers that torch does not have.
std::string faster_kernel(const RankRecords& rank);

}  // namespace stoker

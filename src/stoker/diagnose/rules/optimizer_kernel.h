// The faster kernels that torch has for an optimizer.
#pragma once

#include <string_view>

#include "stoker/records/records.h"

namespace stoker {

// The argument that makes the run's optimizer, one of torch.optim's, faster: "fused" or "foreach". Empty where nothing
// does: some on a CPU, and optimizers that torch does not have.
std::string_view faster_kernel(const RankRecords& rank);

}  // namespace stoker

// How fast samples become batches: decode, RandomResizedCrop, flip, normalise to float32 (N, C, H, W), shuffled,
// with nobody training on them. With --peers the same beside other systems' pipelines.
#pragma once

#include "cli/command.h"

namespace stoker::cli {

Command add_bench_pipeline(CLI::App& app);

}  // namespace stoker::cli

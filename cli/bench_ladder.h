// The MNIST experiment as a ladder: MLP 784-128-64-10, Adam 1e-3, batch 64, 5 epochs, shuffled. Each
// rung adds one technique to the one before; with --peer the same in plain Python PyTorch.
#pragma once

#include "command.h"

namespace stoker::cli {

Command add_bench_ladder(CLI::App& app);

}  // namespace stoker::cli

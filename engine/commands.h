// The commands that need LibTorch; the program starts the engine for them (engine.h).
#pragma once

#include "cli/command.h"

namespace stoker::cli {

Command add_train(CLI::App& app);
Command add_eval(CLI::App& app);
Command add_predict(CLI::App& app);
Command add_export(CLI::App& app);

// The MNIST experiment as a ladder: MLP 784-128-64-10, Adam 1e-3, batch 64, 5 epochs, shuffled. Each
// rung adds one technique to the one before; with --peer the same in plain Python PyTorch.
Command add_bench_ladder(CLI::App& app);

// A training step alone, beside the same one in Python PyTorch.
Command add_bench_step(CLI::App& app);

}  // namespace stoker::cli

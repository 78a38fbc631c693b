// The commands of stoker-engine. `stoker` starts it for them (cli/engine_exec.h).
#pragma once

#include <span>

#include "cli/command.h"
#include "cli/program.h"

namespace stoker::cli {

// All of them.
std::span<const Entry> engine_commands();

Command add_train(CLI::App& app);
Command add_eval(CLI::App& app);
Command add_predict(CLI::App& app);
Command add_export(CLI::App& app);
Command add_profile(CLI::App& app);
Command add_tune(CLI::App& app);
Command add_lr(CLI::App& app);
Command add_plan(CLI::App& app);
Command add_trial(CLI::App& app);

// The published MNIST experiment: MLP 784-128-64-10, Adam 1e-3, batch 64, 5 epochs, shuffled. Each rung of the ladder
// adds one technique to the previous rung; --peer runs plain Python PyTorch too.
Command add_bench_ladder(CLI::App& app);

// The gain of each technique on a recipe's own data and model, alone and added up.
Command add_bench_techniques(CLI::App& app);

// The cost of the account.
Command add_bench_overhead(CLI::App& app);

// One training step of a model; --peer times the same step in Python PyTorch.
Command add_bench_step(CLI::App& app);

}  // namespace stoker::cli

// The table of the engine's commands.
#include "engine/commands.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/engine_exec.h"

namespace stoker::cli {
namespace {

Command add_bench_commands(CLI::App& app) {
    app.require_subcommand(1);
    using Bench = std::pair<CLI::App*, Command>;
    const auto add = [&app](const CommandName& name, Command (*command)(CLI::App&)) {
        CLI::App* sub = app.add_subcommand(name.name, name.summary);
        return Bench(sub, command(*sub));
    };
    const std::vector<Bench> benches = {add(kLadder, add_bench_ladder), add(kStep, add_bench_step),
                                        add(kTechniques, add_bench_techniques), add(kOverhead, add_bench_overhead)};
    return [benches] {
        const auto parsed = [](const Bench& bench) { return bench.first->parsed(); };
        return std::ranges::find_if(benches, parsed)->second();
    };
}

constexpr Entry kCommands[] = {
    {kTrain.name, kTrain.summary, add_train},
    {kEval.name, kEval.summary, add_eval},
    {kPredict.name, kPredict.summary, add_predict},
    {kExport.name, kExport.summary, add_export},
    {kProfile.name, kProfile.summary, add_profile},
    {kTune.name, kTune.summary, add_tune},
    {kLr.name, kLr.summary, add_lr},
    {kPlan.name, kPlan.summary, add_plan},
    {kTrial.name, kTrial.summary, add_trial},
    {kBench.name, kBench.summary, add_bench_commands},
};

}  // namespace

std::span<const Entry> engine_commands() {
    return kCommands;
}

}  // namespace stoker::cli

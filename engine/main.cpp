// stoker-engine: the commands that need LibTorch. `stoker` starts it with its own arguments (cli/engine_exec.h).
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/engine_exec.h"
#include "cli/program.h"
#include "engine/commands.h"
#include "stoker/bridge/checked_allocator.h"

namespace {

using namespace stoker::cli;

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

// The folder "torch" of the loaded LibTorch, such as .../site-packages/torch.
std::filesystem::path loaded_torch() {
    std::filesystem::path found;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* out) {
            const std::filesystem::path path(info->dlpi_name);
            if (path.filename() == "libtorch_cpu.so") {
                *static_cast<std::filesystem::path*>(out) =
                    std::filesystem::weakly_canonical(path).parent_path().parent_path();
                return 1;
            }
            return 0;
        },
        &found);
    return found;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 2 && std::string_view(argv[1]) == kPrintLibTorch) {
        return std::puts(loaded_torch().c_str()) < 0 ? 1 : 0;
    }
    stoker::check_host_tensors();
    return run_program(argc, argv, kCommands);
}

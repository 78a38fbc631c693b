// stoker-engine: the commands that need LibTorch. `stoker` starts it with its own arguments (cli/engine_exec.h).
#include <link.h>

#include <cstdio>
#include <filesystem>
#include <string_view>

#include "cli/engine_exec.h"
#include "cli/program.h"
#include "engine/commands.h"

namespace {

using namespace stoker::cli;

Command add_bench_commands(CLI::App& app) {
    app.require_subcommand(1);
    CLI::App* ladder_app = app.add_subcommand(kLadder.name, kLadder.summary);
    Command ladder = add_bench_ladder(*ladder_app);
    Command step = add_bench_step(*app.add_subcommand(kStep.name, kStep.summary));
    return [ladder, step, ladder_app] { return ladder_app->parsed() ? ladder() : step(); };
}

constexpr Entry kCommands[] = {
    {kTrain.name, kTrain.summary, add_train},          {kEval.name, kEval.summary, add_eval},
    {kPredict.name, kPredict.summary, add_predict},    {kExport.name, kExport.summary, add_export},
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
    return run_program(argc, argv, kCommands);
}

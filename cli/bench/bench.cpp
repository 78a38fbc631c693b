// stoker bench: one file per benchmark. The engine runs `ladder` and `step` (engine/bench/).
#include "cli/command.h"
#include "cli/engine_exec.h"

namespace stoker::cli {

Command add_bench(CLI::App& app) {
    app.require_subcommand(1);
    Command pipeline = add_bench_pipeline(
        *app.add_subcommand("pipeline", "images per second from files to batches; --peers: other systems too"));
    CLI::App* storage_app =
        app.add_subcommand("storage", "samples per second from each storage format; --peer: Python libraries too");
    Command storage = add_bench_storage(*storage_app);
    for (const CommandName& bench : {kLadder, kStep, kTechniques, kOverhead}) {
        app.add_subcommand(bench.name, engine_summary(bench.summary));  // for --help; main.cpp starts the engine
    }
    example(app,
            "  stoker bench pipeline --data data/train\n"
            "  stoker bench storage --peer\n"
            "  stoker bench ladder --data synth:digits\n"
            "  stoker bench step --model resnet18 --peer\n"
            "  stoker bench techniques recipes/digits.toml\n"
            "  stoker bench overhead");
    return [pipeline, storage, storage_app] { return storage_app->parsed() ? storage() : pipeline(); };
}

}  // namespace stoker::cli

// stoker bench: a table of benchmarks, one file each.
#include "cli/bench/bench_pipeline.h"
#include "cli/bench/bench_storage.h"
#include "cli/command.h"
#include "cli/engine_exec.h"

namespace stoker::cli {

Command add_bench(CLI::App& app) {
    app.require_subcommand(1);
    Command pipeline =
        add_bench_pipeline(*app.add_subcommand("pipeline", "how fast samples become batches; --peers: and elsewhere"));
    CLI::App* storage_app = app.add_subcommand("storage", "how fast records' bytes come from each kind of file");
    Command storage = add_bench_storage(*storage_app);
    app.add_subcommand(kLadder.name, kLadder.summary);  // main.cpp hands these to the engine
    app.add_subcommand(kStep.name, kStep.summary);
    example(app,
            "  stoker bench pipeline --data data/train\n"
            "  stoker bench storage --peer\n"
            "  stoker bench ladder --data synth:digits\n"
            "  stoker bench step --model resnet18 --peer");
    return [pipeline, storage, storage_app] { return storage_app->parsed() ? storage() : pipeline(); };
}

}  // namespace stoker::cli

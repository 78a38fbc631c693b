// stoker bench: a table of benchmarks, one file each.
#include "bench_pipeline.h"
#include "command.h"
#include "engine.h"

namespace stoker::cli {

Command add_bench(CLI::App& app) {
    app.require_subcommand(1);
    Command pipeline =
        add_bench_pipeline(*app.add_subcommand("pipeline", "how fast samples become batches; --peers: and elsewhere"));
    app.add_subcommand(kLadder.name, kLadder.summary);  // main.cpp hands it to the engine
    example(app,
            "  stoker bench pipeline --data data/train\n"
            "  stoker bench ladder --data synth:digits");
    return pipeline;
}

}  // namespace stoker::cli

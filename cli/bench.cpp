// stoker bench: a table of benchmarks, one file each.
#include "bench_ladder.h"
#include "command.h"

namespace stoker::cli {

Command add_bench(CLI::App& app) {
    app.require_subcommand(1);
    CLI::App* ladder = app.add_subcommand("ladder", "the published MNIST experiment, one technique after the other");
    Command run_ladder = add_bench_ladder(*ladder);
    example(app, "  stoker bench ladder --data synth:digits");
    return run_ladder;
}

}  // namespace stoker::cli

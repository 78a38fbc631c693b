// The stoker program: a table of commands, one file each. Reports go to stdout, everything else to
// stderr. Exit status: 0 success, 1 failure, 2 wrong usage, 128 + N after signal N.
#include <cstdio>
#include <fmt/format.h>

#include "command.h"
#include "stoker/base/error.h"

namespace {

using namespace stoker::cli;

struct Entry {
    const char* name;
    const char* summary;
    Command (*add)(CLI::App&);
};
constexpr Entry kCommands[] = {
    {"train", "train a model as a recipe says", add_train},
    {"eval", "measure a checkpoint on the validation data", add_eval},
    {"inspect", "say what is in a data set; --verify decodes everything", add_inspect},
    {"show", "draw a batch, or write one sample, as the model sees it", add_show},
    {"synth", "make a data set to try things on", add_synth},
    {"bench", "measure: the ladder of techniques on the MNIST experiment", add_bench},
    {"doctor", "check this machine: cores, memory, driver, CUDA, LibTorch", add_doctor},
};

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Stoker keeps the GPU fed: a training engine and input pipeline on LibTorch.", "stoker");
    app.set_version_flag("--version", fmt::format("stoker {} (LibTorch {})", STOKER_VERSION, STOKER_TORCH_VERSION));
    app.require_subcommand(1);
    app.footer("`stoker COMMAND --help` tells more, with an example.");
    std::vector<std::pair<CLI::App*, Command>> commands;
    for (const auto& entry : kCommands) {
        CLI::App* sub = app.add_subcommand(entry.name, entry.summary);
        commands.emplace_back(sub, entry.add(*sub));
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    try {
        for (const auto& [sub, run] : commands) {
            if (sub->parsed()) {
                return run();
            }
        }
    } catch (const std::exception& error) {
        fmt::print(stderr, "stoker: {}\n", error.what());
    }
    return 1;
}

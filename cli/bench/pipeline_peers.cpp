// exec, so that signals, terminal and exit status are the script's own.
#include "cli/bench/pipeline_peers.h"

#include <unistd.h>

#include <filesystem>

#include "stoker/base/error.h"

namespace stoker::cli {

namespace fs = std::filesystem;

void compare_with_peers(const PeersProgram& program, const PeersRun& run) {
    std::error_code unknown;
    if (!fs::is_regular_file(program.script, unknown)) {
        throw IoError({.where = program.script,
                       .expected = "the script of --peers",
                       .got = "no such file",
                       .hint = "pass --peers-script with bench/peers/pipeline/compare.py of Stoker's source folder"});
    }
    std::vector<std::string> words = {program.python, program.script,
                                      "--stoker",     fs::read_symlink("/proc/self/exe", unknown).string(),
                                      "--data",       run.data,
                                      "--size",       std::to_string(run.size),
                                      "--batch",      std::to_string(run.batch),
                                      "--rounds",     std::to_string(run.rounds),
                                      "--batches",    std::to_string(run.batches)};
    const auto add = [&](const std::string& option, const std::string& value) {
        words.insert(words.end(), {option, value});
    };
    if (run.workers) {
        add("--workers", std::to_string(*run.workers));
    }
    for (const std::string& name : program.only) {
        add("--peer", name);
    }
    if (!program.plot.empty()) {
        add("--plot", program.plot);
    }
    if (run.json) {
        words.emplace_back("--json");
    }
    std::vector<char*> arguments;
    for (std::string& word : words) {
        arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    throw IoError({.where = program.python,
                   .expected = "a Python interpreter for --peers",
                   .got = errno_text(),
                   .hint = "pass --python"});
}

}  // namespace stoker::cli

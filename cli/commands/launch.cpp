// stoker launch: starts several processes of one command with torchrun, which gives each its rank, watches them, and
// ends them all when one fails. What it needs of Python is beside LibTorch's wheel.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "cli/command.h"
#include "stoker/base/error.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
    std::string processes;
    std::vector<std::pair<std::string, std::string>> others;  // of torchrun's, as given
    std::vector<std::string> command;
};

// torchrun, but that a failure, of which the process itself has said why, is no traceback of the launcher's. Processes
// have sessions of their own, so a terminal's Ctrl-C reaches them once, through it.
constexpr const char* kTorchrun = R"(
import logging, signal, sys
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import parse_args, run

logging.disable(logging.ERROR)
sys.argv[0] = "stoker launch"
try:
    run(parse_args(sys.argv[1:]))
except ChildFailedError as error:
    rank, failure = error.get_first_failure()
    if failure.exitcode > 0:
        sys.exit(failure.exitcode)
    name = signal.Signals(-failure.exitcode).name
    print(f"stoker: [launch] process {failure.pid}, rank {rank}, was ended by {name}", file=sys.stderr)
    sys.exit(128 - failure.exitcode)
except SignalException as error:
    sys.exit(128 + error.sigval)
except Exception as error:
    sys.exit(f"stoker: [launch] {type(error).__name__}: {error}")
)";

// The Python of the environment whose site-packages hold LibTorch's wheel; empty where LibTorch lies elsewhere.
fs::path python_of_torch() {
    // lib/pythonX/site-packages/torch
    const fs::path environment = (fs::path(STOKER_TORCH_DIR) / "../../../..").lexically_normal();
    const fs::path python = environment / "bin/python";
    return STOKER_TORCH_DIR[0] != '\0' && access(python.c_str(), X_OK) == 0 ? python : fs::path();
}

std::vector<std::string> command_line(const Options& options) {
    const fs::path python = python_of_torch();
    std::vector<std::string> line = {"torchrun"};
    if (!python.empty()) {
        line = {python.string(), "-c", kTorchrun};
    }
    line.push_back("--nproc-per-node=" + options.processes);
    for (const auto& [name, value] : options.others) {
        line.push_back(name + "=" + value);
    }
    const auto of_hosts = [](const auto& other) { return other.first != "--max-restarts"; };
    if (std::ranges::none_of(options.others, of_hosts)) {
        line.emplace_back("--standalone");  // on this host, by a port that is free
    }
    line.emplace_back("--no-python");
    std::vector<std::string> command = options.command;
    if (command.front() == "stoker") {
        std::error_code unknown;
        const fs::path self = fs::read_symlink("/proc/self/exe", unknown);
        command.front() = unknown ? command.front() : self.string();
    }
    line.insert(line.end(), command.begin(), command.end());
    return line;
}

int run(const Options& options) {
    std::vector<std::string> line = command_line(options);
    std::vector<char*> arguments;
    for (std::string& word : line) {
        arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    setenv("OMP_NUM_THREADS", "1", /*overwrite=*/0);  // as torchrun would, with a warning; train.threads decides
    execvp(arguments[0], arguments.data());
    throw Unsupported({.where = "launch",
                       .expected = "torchrun, beside LibTorch or on PATH",
                       .got = errno_text(),
                       .hint = "pip install torch, or start each process yourself with RANK, WORLD_SIZE, MASTER_ADDR "
                               "and MASTER_PORT set"});
}

// torchrun's, by the same names, for several hosts.
struct HandedThrough {
    const char* name;
    const char* about;
};
constexpr std::array kHandedThrough = {
    HandedThrough{"--nnodes", "how many hosts, or the least and the most: 2:4"},
    HandedThrough{"--node-rank", "the number of this host"},
    HandedThrough{"--master-addr", "the host of rank 0"},
    HandedThrough{"--master-port", "a port that is free there"},
    HandedThrough{"--rdzv-backend", "how the hosts find each other: c10d, static"},
    HandedThrough{"--rdzv-endpoint", "where: HOST:PORT"},
    HandedThrough{"--rdzv-id", "a name of the job"},
    HandedThrough{"--max-restarts", "how often all processes are started again after a failure"},
};

}  // namespace

Command add_launch(CLI::App& app) {
    auto options = std::make_shared<Options>();
    app.add_option("--nproc-per-node", options->processes, "processes on this host: a number, or auto, cpu, gpu")
        ->required()
        ->check([](const std::string& given) {
            const bool none = given.find_first_not_of("0-") == std::string::npos || given.starts_with('-');
            return none ? "expected at least 1" : "";
        });
    for (const auto& [name, about] : kHandedThrough) {
        app.add_option_function<std::string>(
            name, [options, name = name](const std::string& value) { options->others.emplace_back(name, value); },
            about);
    }
    app.add_option("command", options->command, "what each process runs, after --")->required();
    app.positionals_at_end();
    example(app,
            "  stoker launch --nproc-per-node 2 -- stoker train recipes/digits.toml\n"
            "  stoker launch --nproc-per-node 8 --nnodes 2 --node-rank 0 --master-addr host0 --master-port 29500 \\\n"
            "      -- stoker train recipes/imagenet.toml");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli

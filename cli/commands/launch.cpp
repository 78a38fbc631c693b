// stoker launch: starts several processes of one command with torchrun, which gives each process its rank and stops all
// of them when one fails. torchrun is part of the Python environment that LibTorch's wheel is installed in.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "cli/command.h"
#include "cli/libtorch.h"
#include "cli/terminal/subprocess.h"
#include "stoker/base/error.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;

struct LaunchArguments {
    std::string processes;
    std::vector<std::pair<std::string, std::string>> torchrun;  // other options, passed on as given
    std::vector<std::string> command;
};

// Runs torchrun without its traceback when a process fails, since the process has printed the reason. Each process has
// its own session, so a terminal's Ctrl-C reaches it once, through torchrun.
constexpr const char* kTorchrun = R"(
import logging, os, signal, sys
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import parse_args, run

logging.disable(logging.ERROR)
sys.argv[0] = "stoker launch"

# torchrun forwards the signals that end a run, but not this one, after which a run continues.
def forward(number, frame):
    for path in (f"/proc/self/task/{task}/children" for task in os.listdir("/proc/self/task")):
        try:
            for child in open(path).read().split():
                os.kill(int(child), number)
        except OSError:
            pass  # a thread or process that ended meanwhile

signal.signal(signal.SIGUSR1, forward)
try:
    run(parse_args(sys.argv[1:]))
except ChildFailedError as error:
    rank, failure = error.get_first_failure()
    if failure.exitcode > 0:
        sys.exit(failure.exitcode)
    name = signal.Signals(-failure.exitcode).name
    print(f"stoker: [launch] process {failure.pid}, rank {rank}, was killed by {name}", file=sys.stderr)
    sys.exit(128 - failure.exitcode)
except SignalException as error:
    sys.exit(128 + error.sigval)
except Exception as error:
    sys.exit(f"stoker: [launch] {type(error).__name__}: {error}")
)";

// The interpreter of the environment that LibTorch's wheel is installed in; empty if LibTorch is not from a wheel.
fs::path python_of_torch() {
    // lib/pythonX/site-packages/torch
    const fs::path torch = chosen_libtorch().folder;
    const fs::path python = (torch / "../../../../bin/python").lexically_normal();
    return !torch.empty() && access(python.c_str(), X_OK) == 0 ? python : fs::path();
}

std::vector<std::string> command_line(const LaunchArguments& options) {
    const fs::path python = python_of_torch();
    std::vector<std::string> line = {"torchrun"};
    if (!python.empty()) {
        line = {python.string(), "-c", kTorchrun};
    }
    line.push_back("--nproc-per-node=" + options.processes);
    for (const auto& [name, value] : options.torchrun) {
        line.push_back(name + "=" + value);
    }
    const auto several_hosts = [](const auto& other) { return other.first != "--max-restarts"; };
    if (std::ranges::none_of(options.torchrun, several_hosts)) {
        line.emplace_back("--standalone");  // this host only, on a free port
    } else {
        // With the c10d rendezvous each restart gets a new store. torchrun's one for all knows the ranks of
        // earlier ones, and a host that did not see the failure itself does not count the restart.
        setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1", /*overwrite=*/0);
    }
    line.emplace_back("--no-python");
    std::vector<std::string> command = options.command;
    if (command.front() == "stoker") {
        const fs::path self = program_path();
        command.front() = self.empty() ? command.front() : self.string();
    }
    line.insert(line.end(), command.begin(), command.end());
    return line;
}

int run(const LaunchArguments& options) {
    setenv("OMP_NUM_THREADS", "1", /*overwrite=*/0);  // torchrun sets the same and warns; train.threads decides
    exec_program(command_line(options));
    throw errno_error("launch", "torchrun, next to LibTorch or on PATH", errno,
                      "pip install torch, or start each process yourself with RANK, WORLD_SIZE, MASTER_ADDR and "
                      "MASTER_PORT set");
}

// LaunchArguments of torchrun, by the same names, with their help texts.
constexpr std::pair<const char*, const char*> kTorchrunOptions[] = {
    {"--nnodes", "number of hosts, or a range such as 2:4"},
    {"--node-rank", "the index of this host, from 0"},
    {"--master-addr", "the host of rank 0"},
    {"--master-port", "a free port on that host"},
    {"--rdzv-backend", "how the hosts find each other (rendezvous): c10d, static"},
    {"--rdzv-endpoint", "the rendezvous endpoint, HOST:PORT"},
    {"--rdzv-id", "the job's id"},
    {"--rdzv-conf", "settings of the rendezvous, such as join_timeout=60 (seconds)"},
    {"--max-restarts", "how often all processes are restarted after a failure"},
};

}  // namespace

Command add_launch(CLI::App& app) {
    auto options = std::make_shared<LaunchArguments>();
    app.add_option("--nproc-per-node", options->processes, "processes on this host: a number, or auto, cpu, gpu")
        ->required()
        ->check([](const std::string& given) {
            const bool none = given.find_first_not_of("0-") == std::string::npos || given.starts_with('-');
            return none ? "expected at least 1" : "";
        });
    for (const auto& [name, help] : kTorchrunOptions) {
        app.add_option_function<std::string>(
            name, [options, name = name](const std::string& value) { options->torchrun.emplace_back(name, value); },
            help);
    }
    app.add_option("command", options->command, "the command that each process runs, after --")->required();
    app.positionals_at_end();
    example(app,
            "  stoker launch --nproc-per-node 2 -- stoker train recipes/digits.toml\n"
            "  stoker launch --nproc-per-node 8 --nnodes 2 --node-rank 0 --master-addr host0 --master-port 29500 \\\n"
            "      -- stoker train recipes/imagefolder_resnet18.toml");
    return [options] { return run(*options); };
}

}  // namespace stoker::cli

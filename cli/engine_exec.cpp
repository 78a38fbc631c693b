// exec keeps the process: its number, terminal, open files and exit status are those of the command.
#include "cli/engine_exec.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <string_view>

#include "cli/free_cores.h"
#include "stoker/base/error.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEngineName = "stoker-engine";

fs::path own_folder() {
    std::error_code unknown;
    return fs::read_symlink("/proc/self/exe", unknown).parent_path();
}

// GNU OpenMP's threads spin for milliseconds at each barrier. On a machine whose cores are also wanted by
// somebody else (other jobs, a container's quota) that stalls training tenfold and more; there they shall sleep soon.
// On free cores sleeping soon costs a tenth of a step, so there they spin for as long as it takes. The count is read
// when the library is loaded, which is why it is set here. A user's own choice stays.
void choose_spin() {
    if (std::getenv("GOMP_SPINCOUNT") == nullptr && std::getenv("OMP_WAIT_POLICY") == nullptr) {
        static std::string setting = cores_are_free() ? kLongSpin : kShortSpin;  // putenv keeps the pointer
        putenv(setting.data());
    }
}

// glibc gives large blocks back to the system when they are freed, and a step's activations are large blocks: each step
// would pay for zeroed pages anew, a tenth of its time. Read when a program starts. A user's own choice stays.
void keep_memory() {
    if (std::getenv("GLIBC_TUNABLES") == nullptr) {
        static std::string setting = kKeptMemory;
        putenv(setting.data());
    }
}

}  // namespace

Command in_engine(CLI::App& /*app*/) {
    return [] {
        throw InternalError({.where = "command", .expected = "the engine to run it", .got = "this program"});
        return 1;
    };
}

bool runs_in_engine(int argc, char** argv) {
    const std::string_view first = argc > 1 ? argv[1] : "";
    const std::string_view second = argc > 2 ? argv[2] : "";
    const auto names = {kTrain.name, kEval.name, kPredict.name, kExport.name};
    const auto benches = {kLadder.name, kStep.name};
    return std::ranges::find(names, first) != names.end() ||
           (first == kBench.name && std::ranges::find(benches, second) != benches.end());
}

fs::path find_engine() {
    const fs::path folder = own_folder();
    for (const fs::path& path : {folder / kEngineName, folder / STOKER_ENGINE_FOLDER / kEngineName}) {
        if (access(path.c_str(), X_OK) == 0) {
            return path;
        }
    }
    return {};
}

void start_engine(char** argv) {
    const fs::path engine = find_engine();
    if (engine.empty()) {
        throw Unsupported(
            {.where = argv[1] == std::string_view(kBench.name) ? fmt::format("bench {}", argv[2]) : argv[1],
             .expected = "the engine, Stoker's part that needs LibTorch",
             .got = "no " + std::string(kEngineName) + " beside this program",
             .hint = "build and install with STOKER_ENGINE=ON"});
    }
    choose_spin();
    keep_memory();
    execv(engine.c_str(), argv);
    throw IoError({.where = engine.string(), .expected = "an executable that starts", .got = errno_text()});
}

}  // namespace stoker::cli

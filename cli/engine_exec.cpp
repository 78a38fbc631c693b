// exec keeps the process: its id, terminal, open files and exit status are those of the command.
#include "cli/engine_exec.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "cli/build_facts.h"
#include "cli/terminal/subprocess.h"
#include "stoker/base/cpu_cores.h"
#include "stoker/base/error.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEngineName = "stoker-engine";
// site-packages/stoker_engine/torch-2.11/stoker-engine, seen from site-packages/stoker/bin.
constexpr const char* kEngineWheel = "../../stoker_engine";
constexpr const char* kReleasePrefix = "torch-";

double thread_cpu_seconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// False if other processes, or a container's quota, take CPU time from this process. Load averages cover a minute and
// ignore containers, so each usable core is kept busy for 10 ms and the CPU time received is compared.
bool cores_are_idle() {
    constexpr std::chrono::milliseconds kDuration{10};
    constexpr double kIdleShare = 0.9;
    std::atomic<bool> idle = true;
    const auto probe = [&idle, kDuration, kIdleShare] {
        const auto begin = std::chrono::steady_clock::now();
        const double before = thread_cpu_seconds();
        while (std::chrono::steady_clock::now() - begin < kDuration) {
        }
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
        if (thread_cpu_seconds() - before < kIdleShare * passed.count()) {
            idle = false;
        }
    };
    std::vector<std::jthread> threads;
    try {
        for (int i = 0; i < std::max(cpu_cores().usable, 1); ++i) {
            threads.emplace_back(probe);
        }
    } catch (const std::system_error&) {  // the system refuses more threads, so it is busy
        idle = false;
    }
    threads.clear();
    return idle;
}

// GNU OpenMP's threads spin for milliseconds at each barrier. If other processes or a container's quota take the cores,
// that slows training tenfold and more, so the threads should sleep soon. On idle cores sleeping soon costs a tenth of
// a step, so they spin longer. libgomp reads the value when it is loaded; a value set by the user wins.
void set_openmp_spin() {
    if (std::getenv("GOMP_SPINCOUNT") == nullptr && std::getenv("OMP_WAIT_POLICY") == nullptr) {
        static std::string setting = cores_are_idle() ? kLongSpin : kShortSpin;  // putenv keeps the pointer
        putenv(setting.data());
    }
}

// glibc returns large freed blocks to the system, and a step's activations are large blocks: zeroing new pages would
// cost a tenth of each step. glibc reads the value when a program starts; a value set by the user wins.
void set_malloc_tunables() {
    if (std::getenv("GLIBC_TUNABLES") == nullptr) {
        static std::string setting = kMallocTunables;
        putenv(setting.data());
    }
}

// An executable for one release of LibTorch.
struct Engine {
    fs::path program;
    std::string release;  // 2.11
    bool built_here;      // together with this program
};

// The engine of this build or installation; else those of the wheel `stoker-engine`, one for each release.
std::vector<Engine> installed_engines() {
    const fs::path folder = program_path().parent_path();
    for (const fs::path& path : {folder / kEngineName, folder / kEngineFolder / kEngineName}) {
        if (access(path.c_str(), X_OK) == 0) {
            return {{.program = path, .release = torch_release(kTorchVersion), .built_here = true}};
        }
    }
    std::vector<Engine> engines;
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(folder / kEngineWheel, missing)) {
        const std::string name = entry.path().filename().string();
        if (const fs::path path = entry.path() / kEngineName;
            name.starts_with(kReleasePrefix) && access(path.c_str(), X_OK) == 0) {
            engines.push_back(
                {.program = path, .release = name.substr(std::strlen(kReleasePrefix)), .built_here = false});
        }
    }
    std::ranges::sort(engines, {}, &Engine::release);
    return engines;
}

}  // namespace

std::string library_path(const LibTorch& torch) {
    if (torch.version.empty() || torch.folder == kTorchFolder) {
        return "";
    }
    const char* before = std::getenv(kLibraryPath);
    const bool some = before != nullptr && *before != '\0';  // an empty part would be the current folder
    return fmt::format("{}={}{}{}", kLibraryPath, library_folder(torch).string(), some ? ":" : "", some ? before : "");
}

Command engine_command(CLI::App& /*app*/) {
    return [] {
        throw InternalError({.where = "command", .expected = "the engine to run it", .got = "this program"});
        return 1;
    };
}

bool runs_in_engine(int argc, char** argv) {
    const std::string_view first = argc > 1 ? argv[1] : "";
    const std::string_view second = argc > 2 ? argv[2] : "";
    const auto names = {kTrain.name,   kEval.name, kPredict.name, kExport.name,
                        kProfile.name, kTune.name, kLr.name,      kPlan.name};
    const auto benches = {kLadder.name, kStep.name, kTechniques.name, kOverhead.name};
    return std::ranges::find(names, first) != names.end() ||
           (first == kBench.name && std::ranges::find(benches, second) != benches.end());
}

bool has_engine() {
    return !installed_engines().empty();
}

fs::path find_engine(const LibTorch& torch, const std::string& where) {
    std::string releases;
    for (const Engine& engine : installed_engines()) {
        // A build finds a LibTorch that was moved through the dynamic linker's path.
        const bool moved =
            engine.built_here && torch.version.empty() && torch.folder == kTorchFolder && !torch.folder.empty();
        if (engine.release == torch_release(torch.version) || moved) {
            return engine.program;
        }
        releases += (releases.empty() ? "" : ", ") + engine.release;
    }
    if (releases.empty()) {
        throw Unsupported({.where = where,
                           .expected = "the engine, Stoker's part that needs LibTorch",
                           .got = fmt::format("no {} in the folders of this program", kEngineName),
                           .hint = "pip install stoker-engine, or build and install with STOKER_ENGINE=ON"});
    }
    throw Unsupported(
        {.where = where,
         .expected = fmt::format("torch {}, which the engine is built for", releases),
         .got = torch.folder.empty()    ? "none"
                : torch.version.empty() ? fmt::format("none in {:?}", torch.folder.string())
                                        : fmt::format("{} in {}", torch.version, torch.folder.string()),
         .hint = fmt::format("install one of these releases, set {} to the folder of one, or build Stoker again",
                             kTorchVariable)});
}

std::string engine_summary(const char* summary) {
    return has_engine() ? summary : fmt::format("{} (needs the engine, which is not installed)", summary);
}

void start_engine(char** argv) {
    const LibTorch torch = chosen_libtorch();
    const fs::path engine =
        find_engine(torch, argv[1] == std::string_view(kBench.name) ? fmt::format("bench {}", argv[2]) : argv[1]);
    if (static std::string path = library_path(torch); !path.empty()) {
        putenv(path.data());
    }
    set_openmp_spin();
    set_malloc_tunables();
    execv(engine.c_str(), argv);
    throw errno_error(engine.string(), "an executable that starts");
}

}  // namespace stoker::cli

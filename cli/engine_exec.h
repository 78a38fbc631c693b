// Starts stoker-engine, the second executable, for the commands that need LibTorch: loading LibTorch takes half a
// second and 120 MB, which other commands should not pay. Users see one program.
#pragma once

#include <filesystem>
#include <string>

#include "cli/command.h"
#include "cli/libtorch.h"

namespace stoker::cli {

struct CommandName {
    const char* name;
    const char* summary;
};
inline constexpr CommandName kTrain = {"train", "train a model from a recipe"};
inline constexpr CommandName kEval = {"eval", "evaluate a checkpoint on the validation data"};
inline constexpr CommandName kPredict = {"predict", "predict classes, values or masks of images with a trained model"};
inline constexpr CommandName kExport = {"export",
                                        "write a trained model for other programs: safetensors or TorchScript"};
inline constexpr CommandName kProfile = {"profile", "profile a few training steps: what holds them up, and where"};
inline constexpr CommandName kStep = {"step", "time one training step of a model; --peer: Python PyTorch too"};
inline constexpr CommandName kBench = {"bench", "benchmarks: input pipeline, storage, training step, MNIST ladder"};
inline constexpr CommandName kTune = {"tune", "find a faster recipe: predict, apply, measure, keep or roll back"};
inline constexpr CommandName kLr = {"lr", "find a learning rate: a range test with a plot and a suggestion"};
inline constexpr CommandName kPlan = {"plan", "predict step time, efficiency and memory of several processes"};
inline constexpr CommandName kTrial = {"trial", "hold a recipe open and measure on request, for tune and bench"};
inline constexpr CommandName kTechniques = {"techniques", "what each technique gains on a recipe's data and model"};
inline constexpr CommandName kOverhead = {"overhead", "what the account of a run and the profiler cost"};
inline constexpr CommandName kLadder = {"ladder", "the published MNIST experiment, adding one technique at a time"};

// Environment variables that start_engine sets, like kLibraryPath; run_subprocess removes them again for other
// programs. How long OpenMP's threads spin at a barrier: on idle cores, and on cores that other processes use too.
inline constexpr const char* kLongSpin = "GOMP_SPINCOUNT=10000";
inline constexpr const char* kShortSpin = "GOMP_SPINCOUNT=1000";
// Memory that a step frees stays with the process for the next step and is allocated in huge pages.
inline constexpr const char* kMallocTunables =
    "GLIBC_TUNABLES=glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1000000000000:glibc.malloc.hugetlb=1";

inline constexpr const char* kLibraryPath = "LD_LIBRARY_PATH";

// LD_LIBRARY_PATH with this LibTorch in front: "NAME=VALUE". Empty for the one at build time, to which the engine's own
// run path leads.
std::string library_path(const LibTorch& torch);

// With this option alone the engine prints the folder "torch" whose libtorch_cpu.so it has loaded.
inline constexpr const char* kPrintLibTorch = "--libtorch";

// The table entry of a command that the engine runs and whose options it parses.
Command engine_command(CLI::App& app);

// True if the command line names one of the engine's commands.
bool runs_in_engine(int argc, char** argv);

// Whether the engine is installed, for any release of LibTorch.
bool has_engine();

// The engine's executable for this LibTorch: in this program's folder, in that of `cmake --install`, or in the wheel
// `stoker-engine`. Throws Unsupported, with `where`, without one, or if none is built for this release.
std::filesystem::path find_engine(const LibTorch& torch, const std::string& where);

// The summary of one of the engine's commands for --help, which says so if the engine is missing.
std::string engine_summary(const char* summary);

// Replaces this process by the engine, with the same arguments. Throws as find_engine does.
[[noreturn]] void start_engine(char** argv);

}  // namespace stoker::cli

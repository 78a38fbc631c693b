// The engine: a second executable with the commands that need LibTorch, whose loading alone takes half a second
// and 120 MB. Users see one program, which starts the engine in its own place where a command wants it.
#pragma once

#include <filesystem>
#include <string>

#include "cli/command.h"

namespace stoker::cli {

struct CommandName {
    const char* name;
    const char* summary;
};
inline constexpr CommandName kTrain = {"train", "train a model as a recipe says"};
inline constexpr CommandName kEval = {"eval", "measure a checkpoint on the validation data"};
inline constexpr CommandName kPredict = {"predict", "say what a trained model sees in images: CSV or JSON"};
inline constexpr CommandName kExport = {"export",
                                        "write a trained model for other programs: safetensors or TorchScript"};
inline constexpr CommandName kStep = {"step", "a model's training step alone; --peer: and in Python"};
inline constexpr CommandName kBench = {"bench", "measure: the input pipeline, the ladder of techniques"};
inline constexpr CommandName kLadder = {"ladder", "the published MNIST experiment, one technique after the other"};

// What the program adds to the engine's environment, for those who start other programs from there. How long OpenMP's
// threads spin: on free cores, and where somebody else wants them too.
inline constexpr const char* kLongSpin = "GOMP_SPINCOUNT=10000";
inline constexpr const char* kShortSpin = "GOMP_SPINCOUNT=1000";
// Memory that a step frees stays with the process, for the next step, and is asked for in huge pages.
inline constexpr const char* kKeptMemory =
    "GLIBC_TUNABLES=glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1000000000000:glibc.malloc.hugetlb=1";

// Asked this way, the engine prints the folder "torch" whose libtorch_cpu.so it was loaded with.
inline constexpr const char* kAskLibTorch = "--libtorch";

// For the tables of commands: its options are the engine's to read.
Command in_engine(CLI::App& app);

// True where the command line names one of the engine's commands.
bool runs_in_engine(int argc, char** argv);

// The engine's executable: beside this program, or where `cmake --install` puts it; empty where there is none.
std::filesystem::path find_engine();

// Goes on as the engine, with the same arguments. Throws Unsupported where there is none.
[[noreturn]] void start_engine(char** argv);

}  // namespace stoker::cli

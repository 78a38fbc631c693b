// The stoker program: a table of commands, one file each. Those that need LibTorch live in the engine
// (engine/main.cpp), so that all others start at once.
#include "cli/engine_exec.h"
#include "cli/program.h"

namespace {

using namespace stoker::cli;

constexpr Entry kCommands[] = {
    {kTrain.name, kTrain.summary, in_engine},
    {kEval.name, kEval.summary, in_engine},
    {kPredict.name, kPredict.summary, in_engine},
    {kExport.name, kExport.summary, in_engine},
    {"launch", "start a command as several processes that train together", add_launch},
    {"inspect", "say what is in a data set; --verify decodes everything", add_inspect},
    {"show", "draw a batch, or write one sample, as the model sees it", add_show},
    {"pack", "write a data set in another format: stk, which reads fastest, WebDataset, LMDB, HDF5, npz", add_pack},
    {"unpack", "write a data set as a folder of image files", add_unpack},
    {"synth", "make a data set to try things on", add_synth},
    {"runs", "list runs, compare them, export their curves", add_runs},
    {kBench.name, kBench.summary, add_bench},
    {"doctor", "check this machine: cores, memory, driver, CUDA, LibTorch", add_doctor},
};

}  // namespace

int main(int argc, char** argv) {
    return run_program(argc, argv, kCommands, [&] {
        if (runs_in_engine(argc, argv)) {
            start_engine(argv);
        }
    });
}

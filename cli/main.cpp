// The program `stoker`: a table of commands, one file each. Commands that need LibTorch run in the engine
// (engine/main.cpp), so that all others start at once.
#include "cli/engine_exec.h"
#include "cli/program.h"

namespace {

using namespace stoker::cli;

constexpr Entry kCommands[] = {
    {kTrain.name, kTrain.summary, engine_command},
    {kEval.name, kEval.summary, engine_command},
    {kPredict.name, kPredict.summary, engine_command},
    {kExport.name, kExport.summary, engine_command},
    {"diagnose", "say what holds up a run, or a torch.profiler trace, and what mends it", add_diagnose},
    {kProfile.name, kProfile.summary, engine_command},
    {kTune.name, kTune.summary, engine_command},
    {kLr.name, kLr.summary, engine_command},
    {kPlan.name, kPlan.summary, engine_command},
    {"launch", "start a command as several processes that train together", add_launch},
    {"inspect", "summarise a data set; --verify decodes every sample", add_inspect},
    {"show", "draw a batch, or write one sample, as the model receives it", add_show},
    {"pack", "convert a data set: stk (fastest to read), WebDataset, LMDB, HDF5, npz", add_pack},
    {"index", "index a data set's JPEGs, so that crops decode faster from the first epoch on", add_index},
    {"unpack", "convert a data set to a folder of image files", add_unpack},
    {"synth", "generate a data set for experiments", add_synth},
    {"recipe", "print a recipe to begin with; without a name, list them", add_recipe},
    {"runs", "list runs, compare them, export their curves", add_runs},
    {kBench.name, kBench.summary, add_bench},
    {"top", "watch GPUs, cores, disks and the runs on this machine", add_top},
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

// Measures the step that one of several ranks makes of a recipe, here and without communication, for `stoker plan`: its
// times, the moments at which the backward pass has each gradient, and its memory.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "stoker/dist/cost_model.h"
#include "stoker/dist/group.h"
#include "stoker/dist/pipeline_cost.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

struct MeasuredRank {
    RankStep step;
    RankMemory memory;                     // of one process with this rank's micro-batch
    std::vector<std::string> block_names;  // of the model as a sequence of blocks; none of one that is not
    std::vector<BlockCost> blocks;         // with the samples of a micro-batch
    std::int64_t parameters = 0;           // of the whole model
    std::int64_t samples = 0;              // of the rank, and so of its copy of the model, in a step
    std::string device;
    int threads = 0;
    double host_seconds = 0;  // Link::host, of processes that measure at once

    // Samples of a micro-batch of `step` and `blocks`, the largest of a step.
    std::int64_t micro_batch() const { return (samples - 1) / step.micro_batches + 1; }
};

struct RankStepOptions {
    int ranks = 1;
    int rounds = 9;                        // the median counts
    std::function<bool()> stop = nullptr;  // true ends the measurement early
    // Processes that measure at once, as they share cores and memory in training; each must make the call. Each time is
    // that of the slowest one, for which the others wait.
    std::shared_ptr<Group> group = nullptr;  // null: this process alone
};

// Opens what the recipe names and trains on noise; nothing of it is kept. The batch, of all ranks, must be a multiple
// of the number of model copies; each copy has train.mesh.pp * tp ranks; with tp the rank has its slices of the model.
// The model is not divided into stages: `blocks` has what a partition needs. Throws what training would, and
// Unsupported for a model that does not train with several ranks.
MeasuredRank measure_rank_step(const Recipe& recipe, const RankStepOptions& options);

}  // namespace stoker

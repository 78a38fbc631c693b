// Measures the step that one of several ranks makes of a recipe, here and by itself, for `stoker plan`: its times, the
// moments at which the backward pass has each gradient, and its memory.
#pragma once

#include <functional>

#include "stoker/dist/cost_model.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

struct MeasuredRank {
    RankStep step;
    RankMemory memory;            // of one process with this rank's micro-batch
    std::int64_t parameters = 0;  // of the whole model
    std::int64_t samples = 0;     // of the rank in a step
    std::string device;
    int threads = 0;
};

struct RankStepOptions {
    int ranks = 1;
    int rounds = 9;                        // the median counts
    std::function<bool()> stop = nullptr;  // true ends the measurement early
};

// Opens what the recipe names and trains on noise; nothing of it is kept. The batch, of all ranks, must be a multiple
// of their number, or of the copies of the model with train.mesh.tp; the rank then has its slices of the model. Throws
// what training would, and Unsupported for a model that does not train with several ranks.
MeasuredRank measure_rank_step(const Recipe& recipe, const RankStepOptions& options);

}  // namespace stoker

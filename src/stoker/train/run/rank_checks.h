// Ranks that train together must have the same recipe, data and arguments. A difference would make the run
// hang, or train something other than its recipe describes.
#pragma once

#include <string>

#include "stoker/dist/group.h"
#include "stoker/pipeline/loader.h"
#include "stoker/recipe/recipe.h"
#include "stoker/train/run/checkpoint.h"

namespace stoker {

// Waits for all ranks, which may take long to open their data. If one has another recipe or other data than rank 0,
// all throw the same InvalidArgument, which names the key and the rank. Paths of data and settings of the host
// (workers, caches, threads) may differ. `val` may be null.
void require_same_recipe(const Group& group, const Recipe& recipe, const Loader& train, const Loader* val);

// The same for the data and the weights of an evaluation or a prediction.
void require_same_data(const Group& group, const Loader& loader, const ModelFile& weights);

// The same for the arguments of Trainer::fit: FitOptions::resume, and whether there is a run folder.
void require_same_start(const Group& group, const std::string& resume, bool has_folder);

}  // namespace stoker

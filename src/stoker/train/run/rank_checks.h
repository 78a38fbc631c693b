// Ranks that train together must have been told the same: a difference would be a hang in the middle of the run, or a
// model that learns something else than its recipe says.
#pragma once

#include <string>

#include "stoker/dist/group.h"
#include "stoker/pipeline/loader.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

// Waits for all ranks, which take their time to open data, and gives the group back. Where one has another recipe or
// other data than rank 0, all throw the same InvalidArgument, which names the key and the rank. Where data lies and how
// a host does its part (workers, caches, threads) may differ. `val` may be null.
const Group& require_same_recipe(const Group& group, const Recipe& recipe, const Loader& train, const Loader* val);

// The same of how a run begins: `resume` as FitOptions', and whether there is a run folder.
void require_same_start(const Group& group, const std::string& resume, bool has_folder);

}  // namespace stoker

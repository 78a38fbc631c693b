// The fixes of Stoker's own runs where no key of the recipe is left to change.
#pragma once

#include "stoker/diagnose/finding.h"
#include "stoker/records/records.h"

namespace stoker {

// Replaces a line of Python, which a recipe has no place for, by what a run of Stoker can do. Called once the keys that
// the recipe has already are gone from the fix. Of a trace alone the recipe is not known: it may have them.
void advise_without_key(Finding& finding, const RankRecords& rank, bool knows_recipe);

}  // namespace stoker

// A fix as text to copy: lines for the recipe, options for the command line, code.
#pragma once

#include <string>
#include <vector>

#include "stoker/diagnose/finding.h"
#include "stoker/records/records.h"

namespace stoker {

// Whether the keys of a recipe come first: for runs, and for traces of `stoker profile`. Others come from programs.
bool has_recipe(const RunRecords& records);

// [data]
// workers = 4
// Empty if the fix changes no key.
std::string recipe_lines(const Fix& fix);

// --set data.workers=4 --set 'data.cache="ram"', safe for a POSIX shell.
std::string set_options(const Fix& fix);

}  // namespace stoker

// A fix as text to copy: lines for the recipe, options for the command line, code.
#pragma once

#include <string>

#include "stoker/diagnose/finding.h"

namespace stoker {

// [data]
// workers = 4
// Empty if the fix changes no key.
std::string recipe_lines(const Fix& fix);

// --set data.workers=4 --set 'data.cache="ram"', safe for a POSIX shell.
std::string set_options(const Fix& fix);

}  // namespace stoker

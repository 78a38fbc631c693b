// The ops that a recipe may name: one table from name to options to op.
#pragma once

#include <string>
#include <vector>

#include "stoker/pipeline/transforms/transform.h"

namespace stoker {

// Throws InvalidArgument for an unknown op or option, or an impossible value, naming its place.
std::vector<Op> make_ops(const std::vector<OpSpec>& specs);

// The names in the table, for help texts.
std::vector<std::string> op_names();

}  // namespace stoker

// The ops that a recipe may name.
#pragma once

#include <vector>

#include "stoker/pipeline/transforms/transform.h"

namespace stoker {

// Makes ops from their recipe entries. Throws InvalidArgument with the entry's place for an unknown op or option, or an
// impossible value; BadSetting if the entry comes from --set.
std::vector<Op> make_ops(const std::vector<OpSpec>& specs);

}  // namespace stoker

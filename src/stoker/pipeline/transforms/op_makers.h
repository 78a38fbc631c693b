// The makers of image ops, for op_table.
#pragma once

#include <string>
#include <vector>

#include "stoker/pipeline/transforms/op_options.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker {

using MakeOp = Op (*)(OpOptions& options);

// Null for other names than those of image ops, and for groups of ops.
MakeOp image_op_maker(const std::string& name);
std::vector<std::string> image_op_names();

}  // namespace stoker

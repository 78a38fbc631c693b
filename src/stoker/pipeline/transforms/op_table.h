// The ops that a recipe may name.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "stoker/ops/custom_op.h"
#include "stoker/pipeline/transforms/op_options.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker {

// Makes ops from their recipe entries. Throws InvalidArgument with the entry's place for an unknown op or option, or an
// impossible value; BadSetting if the entry comes from --set. `colors`, if given, gets the ops whose colour has several
// values.
std::vector<Op> make_ops(const std::vector<OpSpec>& specs, std::vector<OpColor>* colors = nullptr);

// Gives recipes of this program an op of your own. `make` reads the options of its entry, and returns the op; options
// that it did not read are refused. Throws InvalidArgument for a name that is taken.
using MakeCustomOp = std::function<std::shared_ptr<const CustomOp>(OpOptions& options)>;
void register_op(const std::string& name, MakeCustomOp make);

}  // namespace stoker

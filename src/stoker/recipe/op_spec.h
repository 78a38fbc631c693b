// Lists of image ops: data.train_ops and data.val_ops. Which ops and options exist is the pipeline's
// to say; here each entry must be a table with a name and plain options.
#pragma once

#include <string>
#include <vector>

#include "stoker/recipe/document.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

// `place` is that of the list; throws InvalidArgument naming the entry ("data.train_ops[1]") or the
// option ("data.train_ops[1].size").
std::vector<OpSpec> read_ops(const TomlValue& value, const Place& place);

// {op = "resize", size = 256}
std::string op_to_toml(const OpSpec& op);

// An array, one op to a line.
std::string ops_to_toml(const std::vector<OpSpec>& ops);

}  // namespace stoker

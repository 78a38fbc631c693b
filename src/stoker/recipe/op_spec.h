// Lists of image ops: data.train_ops and data.val_ops. An entry must be a table with a name and plain options;
// pipeline/transforms/op_table.cpp knows which ops and options exist.
#pragma once

#include <string>
#include <vector>

#include "stoker/recipe/document.h"
#include "stoker/recipe/recipe.h"

namespace stoker {

// `place` is the place of the list. Throws InvalidArgument with the entry ("data.train_ops[1]") or the option
// ("data.train_ops[1].size").
std::vector<OpSpec> read_ops(const TomlValue& value, const Place& place);

std::string option_to_toml(const OptionValue& value);

// {op = "resize", size = 256}
std::string op_to_toml(const OpSpec& op);

// An array with one op per line.
std::string ops_to_toml(const std::vector<OpSpec>& ops);

}  // namespace stoker

// The settings of a loader: the keys of [data] with their names in Python, in one table. The schema, the binding of
// stoker.Loader, its signature and docstring, and the tables of the docs are made of it.
#pragma once

#include <vector>

#include "stoker/recipe/schema.h"

namespace stoker {

SchemaKey seed_setting();
std::vector<SchemaKey> data_settings();

// The arguments of stoker.Loader that a recipe does not have.
const std::vector<PythonArgument>& python_settings();

}  // namespace stoker

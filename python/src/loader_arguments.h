// The table of a loader's settings (recipe/loader_settings.h) for Python: arguments of stoker.Loader are read as values
// of a recipe, and messages name settings as arguments.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

#include "stoker/recipe/recipe.h"

namespace stoker::python {

namespace nb = nanobind;

// Reads those of `given`, by name, that are keys of a recipe. Throws InvalidArgument for impossible values.
Recipe read_arguments(const nb::dict& given);

// A NameSetting: "data.drop_last", "false" is drop_last=False. Names that are no settings stay.
std::string name_in_python(std::string_view key, std::string_view value);

}  // namespace stoker::python

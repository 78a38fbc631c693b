// --image-field and --label-field: what data.fields is in a recipe, for commands that take a data set by name.
#pragma once

#include "cli/command.h"
#include "stoker/formats/open.h"

namespace stoker::cli {

// `fields` must live as long as the app.
void add_field_options(CLI::App& app, FieldNames& fields);

}  // namespace stoker::cli

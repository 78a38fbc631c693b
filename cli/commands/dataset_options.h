// Options of the commands that take a data set: --image-field, --label-field and --test.
#pragma once

#include <memory>
#include <string>

#include "cli/command.h"
#include "stoker/formats/open.h"

namespace stoker::cli {

// --image-field and --label-field, the command line's form of a recipe's data.fields. `fields` must outlive `app`.
void add_field_options(CLI::App& app, FieldNames& fields);

// Opens the test split (--test) or the training split of `data`. Throws InvalidArgument if the test split is requested
// of data without one, and what open_dataset throws.
std::unique_ptr<Dataset> open_split(const std::string& data, bool test, const FieldNames& fields = {});

}  // namespace stoker::cli

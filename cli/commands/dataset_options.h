// Options of the commands that take a data set: --image-field, --label-field, --memory and --test.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cli/command.h"
#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/formats/open.h"
#include "stoker/recipe/values.h"

namespace stoker::cli {

// --image-field and --label-field, the command line's form of a recipe's data.fields. `fields` must outlive `app`.
inline void add_field_options(CLI::App& app, FieldNames& fields) {
    app.add_option("--image-field", fields.image, "the field with the images (default: images, image, x or data)")
        ->type_name("NAME");
    app.add_option("--label-field", fields.label, "the field with the labels (default: labels, label, y or targets)")
        ->type_name("NAME");
}

// --memory, the command line's form of a recipe's data.memory.
inline void add_memory_option(CLI::App& app) {
    app.add_option_function<std::string>(
           "--memory",
           [](const std::string& text) {
               const std::optional<std::int64_t> bytes = parse_byte_size(text);
               if (!bytes || *bytes < 1) {
                   throw CLI::ValidationError("--memory", "expected an amount of bytes such as 8GiB, got " + text);
               }
               set_memory_limit(*bytes);
           },
           "memory that this command may use (default: what the machine and its cgroups allow)")
        ->type_name("SIZE");
}

// Opens the test split (--test) or the training split of `data`. Throws InvalidArgument if the test split is requested
// of data without one, and what open_dataset throws.
inline std::unique_ptr<Dataset> open_split(const std::string& data, bool test, const FieldNames& fields = {},
                                           std::int64_t context = 0) {
    if (test && !has_splits(data)) {
        throw InvalidArgument({.where = "--test",
                               .expected = "a data set with a test split, such as a folder of IDX files",
                               .got = data});
    }
    return open_dataset(data, test ? Split::test : Split::train, {.fields = fields, .context = context});
}

}  // namespace stoker::cli

// Two options of several commands.
#include "cli/commands/field_options.h"

namespace stoker::cli {

void add_field_options(CLI::App& app, FieldNames& fields) {
    app.add_option("--image-field", fields.image, "the field that holds the images (default: images, image, x or data)")
        ->type_name("NAME");
    app.add_option("--label-field", fields.label,
                   "the field that holds the labels (default: labels, label, y or targets)")
        ->type_name("NAME");
}

}  // namespace stoker::cli

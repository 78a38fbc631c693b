// The arrays of a file that may be further fields, for `stoker inspect`. Reads them, since compressed ones show their
// type and shape only then.
#include <algorithm>

#include "stoker/formats/arrays/array_dataset.h"
#include "stoker/formats/field_values.h"

namespace stoker {

std::vector<Field> ArrayDataset::stored_fields() const {
    std::vector<std::string> names = array_names(path_);
    std::erase_if(names, [&](const std::string& name) { return name == found_.image || name == found_.label; });
    std::vector<Field> fields;
    if (names.empty()) {
        return fields;
    }
    const ArrayFile file = open_arrays(path_, names);
    for (const ArrayView& array : file.arrays) {
        const std::optional<DType> dtype = dtype_of_array(array.type);
        const bool other = std::ranges::find(names, array.name) == names.end();
        if (other || !dtype || array.fortran || array.shape.empty() || array.shape[0] != size()) {
            continue;
        }
        const Shape item(array.shape.begin() + 1, array.shape.end());
        const FieldKind kind = guessed_kind(array.name, *dtype, item);
        fields.push_back(
            {.name = array.name, .kind = kind, .dtype = *dtype, .shape = has_pixels(kind) ? Shape() : item});
    }
    return fields;
}

}  // namespace stoker

// The arrays of a file that may be further fields, for `stoker inspect`. Reads one after the other, since compressed
// ones show their type and shape only then.
#include "stoker/base/error.h"
#include "stoker/base/memory_limit.h"
#include "stoker/formats/arrays/array_dataset.h"
#include "stoker/formats/field_values.h"

namespace stoker {

std::vector<Field> ArrayDataset::stored_fields() const {
    std::vector<Field> fields;
    for (const std::string& name : array_names(path_)) {
        if (name == found_.image || name == found_.label) {
            continue;
        }
        try {
            const ArrayFile file = open_arrays(path_, std::span(&name, 1));
            const ArrayView* array = file.find(name);
            const std::optional<DType> dtype = array == nullptr ? std::nullopt : dtype_of_array(array->type);
            if (!dtype || array->fortran || array->shape.empty() || array->shape[0] != size()) {
                continue;
            }
            const Shape item(array->shape.begin() + 1, array->shape.end());
            const FieldKind kind = guessed_kind(name, *dtype, item);
            fields.push_back({.name = name, .kind = kind, .dtype = *dtype, .shape = has_pixels(kind) ? Shape() : item});
        } catch (const DataError&) {  // an array that cannot be a field
        } catch (const Unsupported&) {
        } catch (const MemoryError&) {
        }
    }
    return fields;
}

}  // namespace stoker

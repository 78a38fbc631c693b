// The keys of [data.fields.NAME], the further fields of a sample. Their names contain the field's, so they are not in
// the table of recipe_schema.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "stoker/recipe/schema.h"

namespace stoker {

// The keys of the field `name`, such as "data.fields.mask.is". Reading one adds the field to the recipe.
std::vector<SchemaKey> field_keys(std::string_view name);

// True for names that a field may have: letters, digits and "_", beginning with a letter, and no field of each batch.
bool is_field_name(std::string_view name);

// A key by its whole name, "data.fields.mask.is" or any of recipe_schema; empty for others.
std::optional<SchemaKey> find_any_key(std::string_view name);

}  // namespace stoker

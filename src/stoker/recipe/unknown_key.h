// The hint for a key that the recipe does not know: mistyped, in another table, or named as in another library.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stoker {

// The keys and tables that `table` may contain; empty: the root.
std::vector<std::string> names_in_table(std::string_view table);

// `did you mean "batch_size"?`, or the names that are known in `table`. Keys of other tables, and with `dotted` all,
// are named with their table.
std::string unknown_key_hint(std::string_view table, std::string_view name, bool dotted);

}  // namespace stoker

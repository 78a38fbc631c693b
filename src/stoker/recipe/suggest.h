// "did you mean": finds the known name nearest to a mistyped one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace stoker {

// The nearest of `names`, the first among equals. Empty if for every name more than a third of its characters would
// have to change. A swap of two neighbours counts as one change.
std::string nearest_name(std::string_view name, std::span<const std::string> names);

}  // namespace stoker

// Patterns for parameter names in recipes: `*` stands for any part of a name, as in "layer1.*" or "bn*.weight".
#pragma once

#include <string_view>

namespace stoker {

bool matches(std::string_view name, std::string_view pattern);

}  // namespace stoker

// Names of parameters as recipes give them: exactly, or with `*` for any part, as in "layer1.*" or "bn*.weight".
#pragma once

#include <string_view>

namespace stoker {

bool matches(std::string_view name, std::string_view pattern);

}  // namespace stoker

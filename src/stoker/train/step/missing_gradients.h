// A trained parameter that a step's loss does not depend on. One process leaves it unchanged; several would wait for
// its gradient.
#pragma once

#include <span>
#include <string>

namespace stoker {

// Throws InvalidArgument. `names`: the known ones of such parameters.
[[noreturn]] void refuse_missing_gradients(std::span<const std::string> names);

}  // namespace stoker

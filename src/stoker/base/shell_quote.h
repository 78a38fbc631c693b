// Text as one word of a shell's command line.
#pragma once

#include <string>

namespace stoker {

// In single quotes if a shell would read it otherwise than as it stands: spaces, "$", "'", "" ...
std::string quoted_for_shell(const std::string& text);

}  // namespace stoker

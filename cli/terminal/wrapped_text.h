// Prose for a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stoker::cli {

// `line` broken at blanks into lines of at most `width` columns. All but the first begin with `indent` blanks. A word
// that is longer stays whole.
std::string wrapped_line(std::string_view line, std::size_t width, std::size_t indent);

}  // namespace stoker::cli

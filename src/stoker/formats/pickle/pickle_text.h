// The texts of pickles that are not bytes as they stand: escapes of protocol 0, bytes dressed as Latin-1 text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace stoker {

// The letters of a string literal as Python 2's repr writes it, quotes included; empty where it is none.
std::optional<std::string> unquote(std::string_view literal);

// UTF-8 from Python's raw-unicode-escape: \uXXXX, \UXXXXXXXX, other bytes as Latin-1; empty for an unfinished escape.
std::optional<std::string> raw_unicode(std::string_view line);

// One byte for each character of the UTF-8 text; empty where there is one above U+00FF, or no UTF-8.
std::optional<std::string> latin1(std::string_view text);

}  // namespace stoker

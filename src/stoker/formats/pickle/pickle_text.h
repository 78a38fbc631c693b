// Decodes text in pickles: escapes of protocol 0, and bytes that were written as Latin-1 text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace stoker {

// The content of a string literal of Python 2's repr, given with its quotes; empty where it is not a valid literal.
std::optional<std::string> unquote(std::string_view literal);

// UTF-8 from Python's raw-unicode-escape: \uXXXX, \UXXXXXXXX, other bytes as Latin-1; empty for an incomplete escape.
std::optional<std::string> raw_unicode(std::string_view line);

// UTF-8 text as Latin-1, one byte for each character; empty for characters above U+00FF and for invalid UTF-8.
std::optional<std::string> latin1(std::string_view text);

}  // namespace stoker

// Foreign text made safe to print: names of files and classes, bytes of archives, answers of servers, values of
// recipes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stoker {

// True for characters that a terminal acts on or that change the order of the text around them: control characters,
// line separators and Unicode's bidirectional controls.
bool is_control(std::uint32_t code_point);

// `text` as one line of valid UTF-8 without such characters. They become \x1b (below 0x20, and bytes that are not
// UTF-8) or \u202e. Backslashes stay, so printable text is returned unchanged.
std::string printable(std::string_view text);

// The same for text of several lines: '\n' stays. JSON stays JSON with the same values.
std::string printable_lines(std::string_view text);

// For JSON, whose text is UTF-8: `text` itself, or with its other bytes as \xff if it is not UTF-8.
std::string utf8_text(std::string_view text);

}  // namespace stoker

#include "cli/terminal/wrapped_text.h"

#include "cli/terminal/table.h"

namespace stoker::cli {
namespace {

// The blank at which the line breaks: the last one within `width` columns, else the first one; npos if there is none.
std::size_t break_of(std::string_view line, std::size_t width) {
    std::size_t last = std::string_view::npos;
    for (std::size_t at = line.find(' ', line.find_first_not_of(' ')); at != std::string_view::npos;
         at = line.find(' ', at + 1)) {
        const bool fits = display_width(line.substr(0, at)) <= width;
        if (!fits && last != std::string_view::npos) {
            break;
        }
        last = at;
        if (!fits) {
            break;
        }
    }
    return last;
}

}  // namespace

std::string wrapped_line(std::string_view line, std::size_t width, std::size_t indent) {
    std::string out;
    std::string rest(line);
    while (display_width(rest) > width) {
        const std::size_t at = break_of(rest, width);
        const std::size_t next = at == std::string::npos ? at : rest.find_first_not_of(' ', at);
        if (next == std::string::npos) {
            break;
        }
        out += rest.substr(0, rest.find_last_not_of(' ', at) + 1) + "\n";
        rest = std::string(indent, ' ') + rest.substr(next);
    }
    return out + rest;
}

}  // namespace stoker::cli

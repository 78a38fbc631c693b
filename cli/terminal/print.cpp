#include "cli/terminal/print.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/base/json_depth.h"
#include "stoker/base/pluralize.h"

namespace stoker::cli {

namespace {

using Json = nlohmann::ordered_json;

// Figures, such as a row of a matrix.
bool is_row(const Json& value) {
    return value.is_array() &&
           std::ranges::all_of(value, [](const Json& item) { return item.is_number() || item.is_null(); });
}

std::string on_one_line(const Json& value) {
    return json_text(value);
}

// As dump(2), but with a row of figures on one line.
void append_document(const Json& value, std::size_t depth, std::string& text) {
    if (!value.is_structured() || value.empty() || is_row(value)) {
        text += on_one_line(value);
        return;
    }
    const std::string indent(2 * depth, ' ');
    char separator = value.is_array() ? '[' : '{';
    for (const auto& [key, item] : value.items()) {
        text += separator + ("\n  " + indent);
        text += value.is_array() ? "" : on_one_line(key) + ": ";
        append_document(item, depth + 1, text);
        separator = ',';
    }
    text += "\n" + indent + (value.is_array() ? ']' : '}');
}

}  // namespace

void print_document(const nlohmann::ordered_json& document) {
    std::string text;
    append_document(document, 0, text);
    print_lines(text + "\n");
}

void print_lines(std::string_view text) {
    write_stdout(printable_lines(text));
}

void write_stdout(const std::string& text) {
    if (std::fputs(text.c_str(), stdout) == EOF) {
        throw errno_error("standard output", "a place to write to");
    }
}

std::string number_text(double value) {
    const double size = std::abs(value);
    if (std::isnan(value)) {
        return "nan";  // without a sign
    }
    if (size >= 1e6) {
        return fmt::format("{:.3g}", value);
    }
    if (size >= 1000) {
        return with_commas(value);
    }
    return size < 1e-3 && size > 0 ? fmt::format("{:.2e}", value) : fmt::format("{:.{}f}", value, size >= 100 ? 1 : 4);
}

std::optional<int> terminal_columns(int descriptor) {
    winsize size{};
    return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? std::optional<int>(size.ws_col)
                                                                        : std::nullopt;
}

}  // namespace stoker::cli

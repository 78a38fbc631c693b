// All printing of commands: reports on stdout, status lines on stderr, JSON documents, numbers. Values are foreign
// text, such as names of files and classes, and are made printable. Format strings are the program's own and may
// contain line breaks and terminal codes.
#pragma once

#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "stoker/base/byte_text.h"
#include "stoker/base/printable.h"

namespace stoker::cli {

// The one document of --json, on stdout. Bytes that are not UTF-8 are replaced.
void print_document(const nlohmann::ordered_json& document);

// Text of several lines on stdout, such as a table. Everything but line breaks is made printable.
void print_lines(std::string_view text);

// Throws IoError if stdout cannot be written.
void write_stdout(const std::string& text);

template <typename Value>
auto printable_value(const Value& value) {
    if constexpr (std::is_arithmetic_v<Value>) {
        return value;
    } else if constexpr (std::is_convertible_v<const Value&, std::string_view>) {
        return printable(value);
    } else {
        return printable(fmt::format("{}", Value(value)));  // a view, such as fmt::join, as a temporary
    }
}

template <typename... Values>
std::string format_printable(fmt::string_view format, const Values&... values) {
    return fmt::vformat(format, fmt::make_format_args(values...));
}

// Prints on stdout. Throws IoError if it cannot be written.
template <typename... Values>
void print_stdout(fmt::format_string<Values...> format, Values&&... values) {
    write_stdout(format_printable(format, printable_value(values)...));
}

// Prints on stderr. If stderr cannot be written (a closed pipe, a full disk), the text is dropped and work continues.
template <typename... Values>
void print_stderr(fmt::format_string<Values...> format, Values&&... values) {
    std::fputs(format_printable(format, printable_value(values)...).c_str(), stderr);
}

// A loss or another figure in at most nine columns: 0.4889, 123.4, 1,234, 1.23e+20, 2.00e-05, nan, inf.
std::string number_text(double value);

// The width of the terminal that `descriptor` is, at this moment: it changes with the window. Empty if it is none, or
// does not tell its width.
std::optional<int> terminal_columns(int descriptor);

}  // namespace stoker::cli

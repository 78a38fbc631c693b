// The texts of /proc and /sys: reads them, and cuts them into lines, words and numbers without allocating. A missing
// value is empty, never an error: kernels and containers differ in what they show.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "stoker/base/parse_number.h"

namespace stoker {

// The first MiB of the file's text; empty if it cannot be read.
std::optional<std::string> read_counter_file(const std::string& path);

// The number that is the whole content of a file such as "memory.max"; empty for other texts, such as "max".
std::optional<std::int64_t> read_counter_number(const std::string& path);

// Cuts `text` off after the first '\n' and returns the line before it, without the '\n'.
std::string_view take_line(std::string_view& text);

// Cuts `text` off after its first word and returns the word; empty at the end. Blanks, tabs and line breaks separate.
std::string_view take_word(std::string_view& text);

// take_word as a number; empty if it is none.
template <typename Number>
std::optional<Number> take_number(std::string_view& text) {
    return parse_number<Number>(take_word(text));
}

// Larger counts are taken for damage: sums of them, and products with sizes of pages and sectors, do not overflow.
inline constexpr std::int64_t kMostCounted = std::int64_t{1} << 50;

// take_word as a count from 0 to `most`; empty if it is none.
std::optional<std::int64_t> take_count(std::string_view& text, std::int64_t most = kMostCounted);

// `count` things of `bytes`; empty for a count that is absent or no count.
std::optional<std::int64_t> bytes_of(std::optional<std::int64_t> count, std::int64_t bytes);

// take_word as a decimal fraction such as "0.52", finite and not negative; empty if it is none.
std::optional<double> take_decimal(std::string_view& text);

// The number in the line that begins with the word `name`, as in "pswpin 12" and "MemTotal:  24684100 kB".
std::optional<std::int64_t> named_number(std::string_view text, std::string_view name);

// Calls `take(line)` for each line.
template <std::invocable<std::string_view> Take>
void for_each_line(std::string_view text, const Take& take) {
    while (!text.empty()) {
        take(take_line(text));
    }
}

// after - before of a counter; empty if one is absent or if the counter was set back.
std::optional<double> difference(std::optional<std::int64_t> before, std::optional<std::int64_t> after);

}  // namespace stoker

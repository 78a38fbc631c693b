// What is told on stderr along the way, to whoever reads it: where it cannot be written (a closed pipe, a full disk) it
// is dropped, as the work counts and not the line.
#pragma once

#include <cstdio>
#include <fmt/format.h>
#include <utility>

namespace stoker::cli {

template <typename... Values>
void say(fmt::format_string<Values...> format, Values&&... values) {
    std::fputs(fmt::format(format, std::forward<Values>(values)...).c_str(), stderr);
}

}  // namespace stoker::cli

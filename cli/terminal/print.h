// Printing that several commands share: JSON documents, status lines on stderr, amounts of bytes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>

namespace stoker::cli {

// The one document of --json, on stdout. Bytes that are not UTF-8 are replaced.
void print_document(const nlohmann::ordered_json& document);

// Prints on stderr. If stderr cannot be written (a closed pipe, a full disk), the text is dropped and work continues.
template <typename... Values>
void print_stderr(fmt::format_string<Values...> format, Values&&... values) {
    std::fputs(fmt::format(format, std::forward<Values>(values)...).c_str(), stderr);
}

// 11010048 as "10.5 MiB".
std::string byte_text(std::int64_t bytes);

}  // namespace stoker::cli

// Reads a text file line by line in bounded memory: in pieces, with at most 64 KiB a line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace stoker {

// Calls `take(line, offset)` for each complete line, without its line break. Returns the text after the last one, which
// a killed writer leaves. Throws IoError if the file cannot be read, and DataError for a longer line.
std::string for_each_line(const std::filesystem::path& path,
                          const std::function<void(std::string_view, std::uint64_t)>& take);

}  // namespace stoker

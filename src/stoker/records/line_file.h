// Reads a text file line by line in bounded memory: in pieces, with at most 64 KiB a line. The file may be growing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace stoker {

// Calls `take(line, offset)` for each complete line from `begin` on, without its line break. Returns the text after the
// last one: a writer was killed, or has not written the rest yet. Throws IoError if the file cannot be read, and
// DataError for a longer line.
std::string for_each_line(const std::filesystem::path& path,
                          const std::function<void(std::string_view, std::uint64_t)>& take, std::uint64_t begin = 0);

}  // namespace stoker

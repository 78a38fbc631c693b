// write_file without the wait for the disk: for what can be made again and is checked when it is read. After a crash of
// the machine the file may hold anything; other processes see it whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace stoker {

// Throws IoError.
void replace_file(const std::filesystem::path& path, std::span<const std::span<const std::byte>> pieces);

}  // namespace stoker

// The folders in which the system's loader looks for the libraries that a library needs.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace stoker {

// True if LD_LIBRARY_PATH is searched before the folders that the library itself names: it names them by RUNPATH, or
// names none. False for RPATH, which is searched first, and for a file that is not a 64-bit ELF library.
bool environment_comes_first(const std::filesystem::path& library);
bool environment_comes_first(std::span<const std::byte> library);  // the file's bytes

}  // namespace stoker

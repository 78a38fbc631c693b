// Finds files of the checkout and built files from the path of the running test program. No path is compiled in, so
// that ccache can use the objects of one checkout in another.
#pragma once

#include <filesystem>
#include <stdexcept>

namespace stoker::testing {

// build/<preset>/bin, which holds the test programs.
inline std::filesystem::path program_dir() {
    return std::filesystem::canonical("/proc/self/exe").parent_path();
}

// The checkout: the next folder above the programs that has ARCHITECTURE.md.
inline std::filesystem::path source_dir() {
    std::filesystem::path folder = program_dir();
    while (!std::filesystem::exists(folder / "ARCHITECTURE.md")) {
        if (folder == folder.root_path()) {
            throw std::runtime_error(program_dir().string() + ": expected a folder below Stoker's checkout");
        }
        folder = folder.parent_path();
    }
    return folder;
}

}  // namespace stoker::testing

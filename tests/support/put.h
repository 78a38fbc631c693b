// A small file for a test, in folders that are made for it.
#pragma once

#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>

#include "stoker/base/file.h"

namespace stoker::testing {

inline void put(const std::filesystem::path& path, std::string_view content = "x") {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
}

inline void put(const std::filesystem::path& path, std::span<const std::byte> content) {
    put(path, as_text(content));
}

}  // namespace stoker::testing

// Takes files out of the system's page cache, so that reading them is measured and not reading memory.
#pragma once

#include <filesystem>

namespace stoker::cli {

// Writes what is not on the disk yet, then drops a file, or all files of a folder. What cannot be dropped stays.
void drop_from_page_cache(const std::filesystem::path& path);

}  // namespace stoker::cli

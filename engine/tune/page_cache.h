// Takes files out of the system's page cache, so that reading them is measured and not reading memory.
#pragma once

#include <filesystem>

namespace stoker::cli {

// Drops a file, or all files of a folder. Pages that are not on the disk yet stay, unless `write` puts them there
// first.
void drop_from_page_cache(const std::filesystem::path& path, bool write = false);

}  // namespace stoker::cli

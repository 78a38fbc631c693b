// Checks before the work starts that its results can be written. Writing may still fail later, such as on a full disk.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace stoker::cli {

// For write_file (base), which writes a temporary file in the folder of `path` and renames it. Throws IoError if the
// folder is missing or read-only, or `path` is a folder.
void require_writable_file(const std::filesystem::path& path);

// Throws InvalidArgument if `path` is one of the folders in `data` or is below one, links resolved, and the data
// would be read differently with the output among it. Names of `data` that are not folders are ignored.
void require_outside_data(const std::filesystem::path& path, const std::vector<std::string>& data);

// For a file that is opened and overwritten in place. Throws IoError if it cannot be.
void require_openable_file(const std::filesystem::path& path);

// Throws IoError if the folder is missing and cannot be created, or is read-only.
void require_writable_folder(const std::filesystem::path& path);

// Throws InvalidArgument for a name that does not end in .svg.
void require_svg_name(const std::string& option, const std::string& path);

}  // namespace stoker::cli

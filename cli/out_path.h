// Whether results can be written where they shall go, asked before the work and not after it.
#pragma once

#include <filesystem>
#include <string>

namespace stoker::cli {

// Throws IoError where no file of that name can be written.
void require_writable_file(const std::filesystem::path& path);

// Throws IoError where the folder is not there and cannot be made, or nothing can be written into it.
void require_writable_folder(const std::filesystem::path& path);

// Throws InvalidArgument for a name that does not end in .svg.
void require_svg_name(const std::string& option, const std::string& path);

}  // namespace stoker::cli

// Whether results can be written where they shall go, asked before the work and not after it.
#pragma once

#include <filesystem>
#include <string>

namespace stoker::cli {

// Throws IoError where write_file cannot write a file of that name: it makes another beside it and renames that.
void require_writable_file(const std::filesystem::path& path);

// Throws IoError where a file of that name cannot be opened for writing, in which what is there is written over.
void require_openable_file(const std::filesystem::path& path);

// Throws IoError where the folder is not there and cannot be made, or nothing can be written into it.
void require_writable_folder(const std::filesystem::path& path);

// Throws InvalidArgument for a name that does not end in .svg.
void require_svg_name(const std::string& option, const std::string& path);

}  // namespace stoker::cli

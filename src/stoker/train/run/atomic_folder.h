// Folders that appear complete or not at all: they are written under a temporary name, which a rename replaces.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace stoker {

// Before the name of a folder that is being replaced, where the file system cannot exchange names.
inline constexpr std::string_view kReplaced = ".replaced-";

// All throw IoError with the path.
void make_directories(const std::filesystem::path& path);
void rename_folder(const std::filesystem::path& from, const std::filesystem::path& to);
void remove_path(const std::filesystem::path& path);

// Gives `final_name` to the folder that `write` fills, in place of a folder that has the name. Until then it is
// `temporaries`/.writing-NAME; `temporaries` is made, and lies in the same file system. The names are durable once the
// caller has synced the folders that hold them.
void write_folder(const std::filesystem::path& final_name, const std::filesystem::path& temporaries,
                  const std::function<void(const std::filesystem::path& folder)>& write);

// After a kill between two renames of write_folder: gives the folder that was being replaced its name again.
void restore_replaced(const std::filesystem::path& final_name, const std::filesystem::path& temporaries);

}  // namespace stoker

// Folders that appear complete or not at all: they are written under a temporary name, which a rename replaces. And a
// check for links in a folder that another person may have made.
#pragma once

#include <filesystem>
#include <string_view>

namespace stoker {

// The prefix of a folder that is being replaced, if the file system cannot exchange names.
inline constexpr std::string_view kReplaced = ".replaced-";

// All throw IoError with the path.
void make_directories(const std::filesystem::path& path);
void rename_folder(const std::filesystem::path& from, const std::filesystem::path& to);
void remove_path(const std::filesystem::path& path);

// Throws InvalidArgument for a symbolic link: its target is not a part of the folder that is written.
void require_no_link(const std::filesystem::path& path);

// Makes the empty folder `temporaries`/.writing-NAME, and `temporaries`, which must be in the file system of `name`.
std::filesystem::path new_folder(const std::filesystem::path& name, const std::filesystem::path& temporaries);
// Gives it its name, in place of a folder that has the name. Durable once the caller has synced the parent folders.
void commit_folder(const std::filesystem::path& temporary, const std::filesystem::path& name);

// After a kill between two renames of commit_folder: gives the folder that was being replaced its name again.
void restore_replaced(const std::filesystem::path& final_name, const std::filesystem::path& temporaries);

}  // namespace stoker

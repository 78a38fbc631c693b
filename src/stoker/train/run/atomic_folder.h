// Folders that appear complete or not at all: they are written under a temporary name, which a rename replaces.
#pragma once

#include <filesystem>
#include <string_view>

namespace stoker {

// Before the name of a folder that is being replaced, where the file system cannot exchange names.
inline constexpr std::string_view kReplaced = ".replaced-";

// All throw IoError with the path.
void make_directories(const std::filesystem::path& path);
void rename_folder(const std::filesystem::path& from, const std::filesystem::path& to);
void remove_path(const std::filesystem::path& path);

// A folder that gets its name, in place of a folder that has it, once its files are written.
class NewFolder {
  public:
    // Makes the empty folder `temporaries`/.writing-NAME, and `temporaries`, which lies in the same file system.
    NewFolder(std::filesystem::path final_name, const std::filesystem::path& temporaries);

    const std::filesystem::path& path() const { return path_; }  // until `commit`
    // The names are durable once the caller has synced the folders that hold them.
    void commit() const;

  private:
    std::filesystem::path final_name_;
    std::filesystem::path path_;
};

// After a kill between two renames of NewFolder::commit: gives the folder that was being replaced its name again.
void restore_replaced(const std::filesystem::path& final_name, const std::filesystem::path& temporaries);

}  // namespace stoker

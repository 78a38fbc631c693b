// A folder for one writer: a lock on the folder itself, which leaves no file behind and ends with the process.
#pragma once

#include <filesystem>

namespace stoker {

class FolderLock {
  public:
    // Throws IoError where another has the lock, or `path` is no folder. `follow`: it may be a link to one.
    explicit FolderLock(const std::filesystem::path& path, bool follow = true);
    FolderLock(FolderLock&& other) noexcept;
    FolderLock& operator=(FolderLock&& other) noexcept;
    FolderLock(const FolderLock&) = delete;
    FolderLock& operator=(const FolderLock&) = delete;
    ~FolderLock();

    // Whether the name still means the locked folder: another process may have removed it just before.
    bool holds(const std::filesystem::path& path) const;

  private:
    int fd_ = -1;
};

}  // namespace stoker

// Reserves a folder for one writing process: an flock on the folder itself. It needs no lock file and ends with the
// process, even if that is killed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "stoker/base/file.h"

namespace stoker {

class FolderLock {
  public:
    // Throws IoError if another process has the lock, or if `path` is not a folder. `follow`: a link to a folder is
    // accepted. On a file system without locks it succeeds but protects nothing; see `problem`.
    explicit FolderLock(const std::filesystem::path& path, bool follow = true);

    // The same, but empty if another process has the lock.
    static std::optional<FolderLock> try_lock(const std::filesystem::path& path, bool follow = true);

    // True if `path` is still the locked folder: another process may have removed or replaced it.
    bool holds(const std::filesystem::path& path) const;

    // Why the file system refused to lock, such as "No locks available"; empty if the folder is locked.
    const std::string& problem() const { return problem_; }

  private:
    FolderLock() = default;

    Descriptor folder_;
    std::string problem_;
};

}  // namespace stoker

// Reserves a folder for one writing process: an flock on the folder itself. It needs no lock file and ends with the
// process, even if that is killed.
#pragma once

#include <filesystem>
#include <optional>

#include "stoker/base/file.h"

namespace stoker {

class FolderLock {
  public:
    // Throws IoError if another process has the lock, or if `path` is not a folder. `follow`: a link to a folder is
    // accepted. On file systems without locks it succeeds without protecting anything.
    explicit FolderLock(const std::filesystem::path& path, bool follow = true);

    // The same, but empty if another process has the lock.
    static std::optional<FolderLock> try_lock(const std::filesystem::path& path, bool follow = true);

    // True if `path` is still the locked folder: another process may have removed or replaced it.
    bool holds(const std::filesystem::path& path) const;

  private:
    FolderLock() = default;

    Descriptor folder_;
};

}  // namespace stoker

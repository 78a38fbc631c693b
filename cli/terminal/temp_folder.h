// A temporary folder.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "stoker/base/error.h"

namespace stoker::cli {

// A new folder under `parent`, or TMPDIR, named `prefix` and six random characters. The destructor removes it with its
// contents.
class TempFolder {
  public:
    // Throws IoError if the folder cannot be created.
    explicit TempFolder(const std::string& prefix, const std::filesystem::path& parent = {}) {
        std::error_code error;
        const auto folder = parent.empty() ? std::filesystem::temp_directory_path(error) : parent;
        std::string name = (folder / (prefix + "-XXXXXX")).string();
        if (error || mkdtemp(name.data()) == nullptr) {
            throw errno_error(error ? "TMPDIR" : name, "a folder for temporary files", error ? error.value() : errno);
        }
        path_ = name;
    }
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;
    ~TempFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

}  // namespace stoker::cli

// A new folder that appears under its name only when complete.
#pragma once

#include <filesystem>
#include <string>

namespace stoker::cli {

// A temporary folder beside `target`. commit() renames it to `target`; without commit the destructor removes it.
class StagedFolder {
  public:
    // Throws IoError if `target` is a file or a folder with files in it.
    explicit StagedFolder(const std::string& target);
    StagedFolder(const StagedFolder&) = delete;
    StagedFolder& operator=(const StagedFolder&) = delete;
    ~StagedFolder();

    const std::filesystem::path& path() const { return path_; }
    void commit();

  private:
    std::filesystem::path target_;
    std::filesystem::path path_;
};

}  // namespace stoker::cli

// A new folder that appears under its name only when complete.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fmt/format.h>
#include <string>

#include <optional>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/folder_lock.h"

namespace stoker::cli {

// A temporary folder beside `target`. commit() renames it to `target`; without commit the destructor removes it. It is
// locked, so the folders of killed processes can be told from those of living ones, and are removed.
class StagedFolder {
  public:
    // Throws IoError if `target` is a file or a folder with files in it.
    explicit StagedFolder(const std::string& target) : target_(std::filesystem::path(target).lexically_normal()) {
        namespace fs = std::filesystem;
        if (!target_.has_filename()) {
            target_ = target_.parent_path();  // "data/digits/"
        }
        std::error_code error;
        if (fs::exists(target_) && !(fs::is_directory(target_) && fs::is_empty(target_, error))) {
            throw IoError({.where = target,
                           .expected = "a new or an empty folder",
                           .got = fs::is_directory(target_) ? "a folder with files in it" : "a file",
                           .hint = "choose another name, or remove it first"});
        }
        path_ = fmt::format("{}.tmp-{}", target_.string(), getpid());
        do {  // another process may remove it before it is locked
            fs::create_directories(path_, error);
            if (error) {
                throw errno_error(target, "a place for a new folder", error.value());
            }
            lock_.emplace(path_);
        } while (!lock_->holds(path_));
        remove_leftovers();
    }
    StagedFolder(const StagedFolder&) = delete;
    StagedFolder& operator=(const StagedFolder&) = delete;
    ~StagedFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    const std::filesystem::path& path() const { return path_; }

    void commit() {
        std::error_code error;
        std::filesystem::rename(path_, target_, error);  // replaces an empty folder, fails if files appeared in it
        if (error) {
            throw errno_error(target_.string(), "a new or an empty folder", error.value());
        }
        sync_directory(target_.has_parent_path() ? target_.parent_path() : std::filesystem::path("."));
    }

  private:
    // Removes the temporary folders of this target that no process has locked.
    void remove_leftovers() const {
        namespace fs = std::filesystem;
        const std::string front = target_.filename().string() + ".tmp-";
        const fs::path parent = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
        for (const fs::path& other : list_folder(parent)) {
            if (!other.filename().string().starts_with(front) || other.filename() == path_.filename() ||
                !is_folder(other)) {
                continue;
            }
            try {
                const std::optional<FolderLock> lock = FolderLock::try_lock(other, /*follow=*/false);
                if (lock && lock->problem().empty()) {
                    std::error_code ignored;  // a folder that stays only takes room
                    fs::remove_all(other, ignored);
                }
            } catch (const IoError&) {  // its process has just removed or renamed it
            }
        }
    }

    std::filesystem::path target_;
    std::filesystem::path path_;
    std::optional<FolderLock> lock_;
};

}  // namespace stoker::cli

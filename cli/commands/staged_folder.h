// A new folder that appears under its name only when complete.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/folder_lock.h"

namespace stoker::cli {

// A temporary folder next to `target`. commit() renames it to `target`; without commit the destructor removes it. It is
// locked, so the folders of killed processes can be told from those of living ones, and are removed.
class StagedFolder {
  public:
    // Throws IoError if `target` is a file, a folder with files in it, or one that cannot be replaced.
    explicit StagedFolder(const std::string& target) : shown_(target), target_(whole_path(target)) {
        namespace fs = std::filesystem;
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
        require_replaceable();
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
            throw errno_error(shown_, "a new or an empty folder", error.value());
        }
        sync_directory(target_.parent_path());
    }

  private:
    // From the root, without links: the target of a link is replaced, not the link.
    static std::filesystem::path whole_path(const std::string& target) {
        namespace fs = std::filesystem;
        std::error_code unknown;
        fs::path path = target.empty() ? fs::path() : fs::weakly_canonical(fs::absolute(target), unknown);
        if (unknown) {
            throw errno_error(target, "a place for a new folder", unknown.value());
        }
        if (!path.has_filename()) {
            path = path.parent_path();  // "data/digits/"
        }
        if (target.empty() || path == fs::current_path(unknown) || path == path.root_path()) {
            throw IoError({.where = target.empty() ? "\"\"" : target,
                           .expected = "a new or an empty folder",
                           .got = target.empty() ? "no name" : "one that cannot be replaced",
                           .hint = target.empty() ? "name a new folder" : "name a new folder in it"});
        }
        return path;
    }

    // A mount point cannot be replaced: better known now than when the work is done.
    void require_replaceable() const {
        namespace fs = std::filesystem;
        if (!fs::exists(target_)) {
            return;
        }
        std::error_code error;
        std::error_code ignored;
        fs::rename(path_, target_, error);
        if (error) {
            fs::remove_all(path_, ignored);
            throw errno_error(shown_, "an empty folder that can be replaced", error.value(), "name a new folder in it");
        }
        fs::rename(target_, path_);
        fs::create_directory(target_, ignored);  // commit() makes it if this fails
    }

    // "digits.tmp-4711"; "digits.tmp-old" is somebody's.
    static bool is_ours(std::string_view name, std::string_view front) {
        return name.starts_with(front) && name.size() > front.size() &&
               name.find_first_not_of("0123456789", front.size()) == name.npos;
    }

    // Removes the temporary folders of this target that no process has locked.
    void remove_leftovers() const {
        namespace fs = std::filesystem;
        const std::string front = target_.filename().string() + ".tmp-";
        for (const fs::path& other : list_folder(target_.parent_path())) {
            if (!is_ours(other.filename().string(), front) || other.filename() == path_.filename() ||
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

    std::string shown_;  // as the user wrote it
    std::filesystem::path target_;
    std::filesystem::path path_;
    std::optional<FolderLock> lock_;
};

}  // namespace stoker::cli

#include "cli/commands/staged_folder.h"

#include <unistd.h>

#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/base/file.h"

namespace stoker::cli {

namespace fs = std::filesystem;

StagedFolder::StagedFolder(const std::string& target) : target_(fs::path(target).lexically_normal()) {
    if (!target_.has_filename()) {
        target_ = target_.parent_path();  // "data/digits/"
    }
    std::error_code absent;
    if (fs::exists(target_) && !(fs::is_directory(target_) && fs::is_empty(target_, absent))) {
        throw IoError({.where = target,
                       .expected = "a new or an empty folder",
                       .got = fs::is_directory(target_) ? "a folder with files in it" : "a file",
                       .hint = "choose another name, or remove it first"});
    }
    path_ = fmt::format("{}.tmp-{}", target_.string(), getpid());
    std::error_code error;
    fs::create_directories(path_, error);
    if (error) {
        throw errno_error(target, "a place for a new folder", error.value());
    }
}

StagedFolder::~StagedFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}

void StagedFolder::commit() {
    std::error_code error;
    fs::rename(path_, target_, error);  // replaces an empty folder, fails if files appeared in it
    if (error) {
        throw errno_error(target_.string(), "a new or an empty folder", error.value());
    }
    sync_directory(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
}

}  // namespace stoker::cli

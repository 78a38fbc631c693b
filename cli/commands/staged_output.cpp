// The rename is the commit.
#include "cli/commands/staged_output.h"

#include <unistd.h>

#include <fmt/format.h>

#include "stoker/base/error.h"
#include "stoker/base/file.h"

namespace stoker::cli {

namespace fs = std::filesystem;

Staging::Staging(const std::string& target) : target_(fs::path(target).lexically_normal()) {
    if (!target_.has_filename()) {
        target_ = target_.parent_path();  // "data/digits/"
    }
    std::error_code absent;
    if (fs::exists(target_) && !(fs::is_directory(target_) && fs::is_empty(target_, absent))) {
        throw IoError({.where = target,
                       .expected = "a new or an empty folder",
                       .got = fs::is_directory(target_) ? "one with files in it" : "a file",
                       .hint = "name another, or remove it first"});
    }
    folder_ = fmt::format("{}.tmp-{}", target_.string(), getpid());
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) {
        throw IoError({.where = target, .expected = "a place for a new folder", .got = error.message()});
    }
}

Staging::~Staging() {
    std::error_code ignored;  // what stays is under the temporary name
    fs::remove_all(folder_, ignored);
}

void Staging::commit() {
    std::error_code error;
    fs::rename(folder_, target_, error);  // over an empty folder too, never over one filled meanwhile
    if (error) {
        throw IoError({.where = target_.string(), .expected = "a new or an empty folder", .got = error.message()});
    }
    sync_directory(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
}

}  // namespace stoker::cli

// Asks the system, which knows of rights and of disks that are only read; it may still fail later, as a full disk does.
#include "cli/terminal/out_path.h"

#include <unistd.h>

#include <cerrno>
#include <string>

#include "stoker/base/error.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
    std::error_code none;
    return fs::is_directory(path, none);
}

bool is_there(const fs::path& path) {
    std::error_code none;
    return fs::exists(path, none);
}

std::string why_not_into(const fs::path& folder) {
    if (!is_folder(folder)) {
        return folder.string() + (is_there(folder) ? ", which is no folder" : ", a folder that is not there");
    }
    return ::access(folder.c_str(), W_OK | X_OK) == 0 ? "" : errno_text();
}

std::string why_no_file_beside(const fs::path& path) {
    return is_folder(path) ? "a folder" : why_not_into(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

void refuse_file(const fs::path& path, const std::string& trouble) {
    if (!trouble.empty()) {
        throw IoError({.where = path.string(), .expected = "a file that can be written", .got = trouble});
    }
}

}  // namespace

void require_writable_file(const fs::path& path) {
    refuse_file(path, why_no_file_beside(path));
}

void require_openable_file(const fs::path& path) {
    const bool there = is_there(path) && !is_folder(path);
    refuse_file(path, !there ? why_no_file_beside(path) : ::access(path.c_str(), W_OK) != 0 ? errno_text() : "");
}

void require_writable_folder(const fs::path& path) {
    fs::path nearest = path;
    while (!nearest.empty() && !is_there(nearest)) {
        nearest = nearest.parent_path();
    }
    if (const std::string trouble = why_not_into(nearest.empty() ? "." : nearest); !trouble.empty()) {
        throw IoError({.where = path.string(), .expected = "a folder that can be made and written", .got = trouble});
    }
}

void require_svg_name(const std::string& option, const std::string& path) {
    if (!path.ends_with(".svg")) {
        throw InvalidArgument({.where = option, .expected = "a name that ends in .svg, as what is drawn", .got = path});
    }
}

}  // namespace stoker::cli

// access() takes permissions and read-only file systems into account.
#include "cli/terminal/output_path.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <string>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/open.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;

bool path_exists(const fs::path& path) {
    std::error_code none;
    return fs::exists(path, none);
}

// Why no file can be created in `folder`, as a clause; empty if one can.
std::string folder_problem(const fs::path& folder) {
    if (!is_folder(folder)) {
        return fmt::format("{} {}", folder.string(), path_exists(folder) ? "is not a folder" : "does not exist");
    }
    return ::access(folder.c_str(), W_OK | X_OK) == 0 ? "" : errno_text();
}

std::string sibling_problem(const fs::path& path) {
    return is_folder(path) ? "it is a folder"
                           : folder_problem(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

void require_file(const fs::path& path, const std::string& problem) {
    if (!problem.empty()) {
        throw IoError(fmt::format("[{}] expected a file that can be written, but {}", path.string(), problem));
    }
}

// True if a data set in `folder` would take a file or folder at `path`, which is in it or below it, for a part of
// itself: a folder of images takes all files below it but tables, other formats the files of their kind. labels.csv
// makes a table of any folder.
bool would_join_data(const fs::path& path, const std::string& folder) {
    std::error_code unknown;
    const fs::path ending = path.extension();
    if (path.filename() == "labels.csv") {
        return true;
    }
    if (!is_other_than_image_folder(folder) || fs::equivalent(path, folder, unknown)) {
        return ending != ".csv" && ending != ".json";
    }
    return !ending.empty() && !is_image_name(path.string()) &&
           std::ranges::any_of(fs::directory_iterator(folder, unknown),
                               [&](const fs::directory_entry& entry) { return entry.path().extension() == ending; });
}

}  // namespace

void require_writable_file(const fs::path& path) {
    require_file(path, sibling_problem(path));
}

void require_outside_data(const fs::path& path, const std::vector<std::string>& data) {
    std::error_code unknown;
    for (const std::string& file : data) {
        if (!is_folder(file) && fs::equivalent(path, file, unknown)) {
            throw InvalidArgument({.where = path.string(),
                                   .expected = "a new place for the output",
                                   .got = "the data themselves",
                                   .hint = "choose another place for the output"});
        }
    }
    for (const std::string& folder : data) {
        if (path.empty() || !is_folder(folder)) {
            continue;
        }
        fs::path above = fs::weakly_canonical(fs::absolute(path, unknown), unknown);
        while (!fs::equivalent(above, folder, unknown) && above.has_relative_path()) {
            above = above.parent_path();
        }
        if (fs::equivalent(above, folder, unknown) && would_join_data(path, folder)) {
            throw InvalidArgument({.where = path.string(),
                                   .expected = fmt::format("a place outside the data in {}", folder),
                                   .got = "one among the data",
                                   .hint = "choose another place for the output"});
        }
    }
}

void require_openable_file(const fs::path& path) {
    const bool file = path_exists(path) && !is_folder(path);
    require_file(path, !file ? sibling_problem(path) : ::access(path.c_str(), W_OK) != 0 ? errno_text() : "");
}

void require_writable_folder(const fs::path& path) {
    fs::path nearest = path;
    while (!nearest.empty() && !path_exists(nearest)) {
        nearest = nearest.parent_path();
    }
    if (const std::string problem = folder_problem(nearest.empty() ? "." : nearest); !problem.empty()) {
        throw IoError(fmt::format("[{}] expected a writable folder, but {}", path.string(), problem));
    }
}

void require_svg_name(const std::string& option, const std::string& path) {
    if (!path.ends_with(".svg")) {
        throw InvalidArgument({.where = option, .expected = "a file name that ends in .svg", .got = path});
    }
}

}  // namespace stoker::cli

// Hidden files and folders are skipped: tools leave them behind.
#include "stoker/formats/folder_walk.h"

#include <sys/stat.h>

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <span>
#include <system_error>

#include "stoker/base/error.h"
#include "stoker/formats/image_kind.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

void check_loop(const fs::path& link, const fs::path& root) {
    if (const fs::path above = folder_above(link, root); !above.empty()) {
        throw DataError({.path = link.string()}, {.where = "image_folder",
                                                  .expected = "no links to a folder above them",
                                                  .got = fmt::format("a link to {}", above.string()),
                                                  .hint = "remove the link"});
    }
}

void walk_below(const fs::path& root, const std::string& path, std::vector<WalkedFolder>& found) {
    WalkedFolder folder = walk_folder(root, path);
    const std::vector<std::string> below = folder.folders;
    found.push_back(std::move(folder));
    for (const std::string& name : below) {
        walk_below(root, path + "/" + name, found);
    }
}

std::int64_t nanoseconds(const timespec& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

fs::path folder_above(const fs::path& link, const fs::path& root) {
    std::error_code error;
    for (fs::path above = link.parent_path(); above.native().size() >= root.native().size();
         above = above.parent_path()) {
        if (fs::equivalent(above, link, error)) {
            return above;
        }
        if (above == root) {
            break;
        }
    }
    return {};
}

std::optional<FolderStamp> folder_stamp(const fs::path& folder) {
    struct stat info {};
    if (::stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
        return std::nullopt;
    }
    return FolderStamp{.device = info.st_dev,
                       .inode = info.st_ino,
                       .modified_ns = nanoseconds(info.st_mtim),
                       .changed_ns = nanoseconds(info.st_ctim)};
}

// Common file systems return the type with the name, so only links cost another system call.
WalkedFolder walk_folder(const fs::path& root, const std::string& path) {
    const fs::path folder = path.empty() ? root : root / path;
    WalkedFolder walked;
    walked.path = path;
    // Taken before the entries, so that a change during the listing has a later time.
    walked.stamp = folder_stamp(folder).value_or(FolderStamp{});
    std::error_code error;
    std::error_code unknown;  // an entry of unknown type is not a folder, as in Python's os.walk
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        std::string name = entry->path().filename().string();
        if (is_hidden_name(name)) {
            continue;
        }
        const bool link = entry->is_symlink(unknown);
        if (entry->is_directory(unknown)) {
            if (link) {
                check_loop(entry->path(), root);
            }
            walked.folders.push_back(std::move(name));
            continue;
        }
        if (link) {
            walked.links.push_back(name);
        }
        if (is_npy_name(name) || is_recording_name(name)) {
            walked.others.push_back(std::move(name));
        } else if (is_image_name(name)) {
            walked.images.push_back(std::move(name));
        } else if (is_unsupported_image_name(name)) {
            walked.unsupported.push_back(std::move(name));
        }
    }
    if (error) {
        throw errno_error(folder.string(), "a readable folder", error.value());
    }
    std::ranges::sort(walked.folders);
    std::ranges::sort(walked.images);
    std::ranges::sort(walked.others);
    std::ranges::sort(walked.unsupported);
    return walked;
}

std::vector<WalkedFolder> walk_class(const fs::path& root, const std::string& name) {
    std::vector<WalkedFolder> found;
    walk_below(root, name, found);
    std::ranges::sort(found, {}, &WalkedFolder::path);  // "a-b" before "a/b", unlike the walk
    return found;
}

void choose_images(std::vector<WalkedFolder>& folders) {
    if (std::ranges::all_of(folders, [](const WalkedFolder& folder) { return folder.images.empty(); })) {
        for (WalkedFolder& folder : folders) {
            folder.images = std::move(folder.others);
        }
    }
}

std::vector<WalkedFolder> walk_all(const fs::path& root) {
    std::vector<WalkedFolder> all = {walk_folder(root, "")};
    const std::vector<std::string> below = all.front().folders;
    for (const std::string& name : below) {
        std::ranges::move(walk_class(root, name), std::back_inserter(all));
    }
    choose_images(all);
    return all;
}

}  // namespace stoker

// Lists the folders and images of a class in the order of torchvision's make_dataset, with a stamp of each folder that
// shows whether a later listing would find the same.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

// A folder's identity and times. Adding, removing or renaming an entry sets both times. mtime can be set back, as tar
// and rsync do; ctime cannot.
struct FolderStamp {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t modified_ns = 0;
    std::int64_t changed_ns = 0;

    bool operator==(const FolderStamp&) const = default;
};

// The stamp of the folder, with links followed; empty if the path is not a folder.
std::optional<FolderStamp> folder_stamp(const std::filesystem::path& folder);

// The folder above `link`, up to the root, that it leads to, so that a walk would never end. Empty if it leads
// elsewhere.
std::filesystem::path folder_above(const std::filesystem::path& link, const std::filesystem::path& root);

// The entries of one folder, without those of its subfolders.
struct WalkedFolder {
    std::string path;  // within the root; empty for the root itself
    FolderStamp stamp;
    std::vector<std::string> folders;  // sorted bytewise, as are the next
    std::vector<std::string> images;
    std::vector<std::string> others;       // .npy files and videos, sorted
    std::vector<std::string> unsupported;  // images that no codec reads, sorted
    std::vector<std::string> links;        // links that do not lead to a folder
};

// Throws IoError if the folder cannot be read, DataError for a link that leads to a folder above it.
WalkedFolder walk_folder(const std::filesystem::path& root, const std::string& path);

// The folder `name` within the root and all folders below it, sorted by path.
std::vector<WalkedFolder> walk_class(const std::filesystem::path& root, const std::string& name);

// If none of the folders has images, their others become images: next to pictures, arrays may be their features, and
// videos their source.
void choose_images(std::vector<WalkedFolder>& folders);

// The root, and after it all folders below it in the order of walk_class, with their images chosen.
std::vector<WalkedFolder> walk_all(const std::filesystem::path& root);

}  // namespace stoker

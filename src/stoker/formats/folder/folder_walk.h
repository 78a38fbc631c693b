// Lists the folders and the images of a class, as torchvision's make_dataset does, together with what tells whether a
// later listing would find the same.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

// Which folder, and when it last changed: adding, removing and renaming an entry set both times. The second one, of
// the status, cannot be set back, as tar and rsync do with the first.
struct FolderStamp {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t modified_ns = 0;
    std::int64_t changed_ns = 0;

    bool operator==(const FolderStamp&) const = default;
};

// Of what a path leads to, links followed; empty where that is no folder.
std::optional<FolderStamp> folder_stamp(const std::filesystem::path& folder);

// One folder's own entries.
struct WalkedFolder {
    std::string path;  // within the root; empty for the root itself
    FolderStamp stamp;
    std::vector<std::string> folders;  // sorted bytewise, as are images
    std::vector<std::string> images;
    std::vector<std::string> links;  // links that lead to no folder, with names of images or without
    std::int64_t others = 0;         // images of types that are not read
};

// Throws IoError where the folder cannot be read, DataError for a link that leads to a folder above it.
WalkedFolder walk_folder(const std::filesystem::path& root, const std::string& path);

// The folder of that name within the root and all below it, in the order of their paths.
std::vector<WalkedFolder> walk_class(const std::filesystem::path& root, const std::string& name);

}  // namespace stoker

// A folder of image files with one subfolder for each class. Classes, labels and order are those of torchvision's
// ImageFolder, so index i is the same image in both. Two differences: names that begin with "." are skipped, and TIFF,
// which no codec reads, is left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/file.h"
#include "stoker/formats/dataset.h"
#include "stoker/formats/folder/file_prefetcher.h"
#include "stoker/formats/folder/folder_index.h"

namespace stoker {

class ImageFolder final : public Dataset {
  public:
    // Lists the files without opening any, or uses the cached listing (folder_index.h). Follows links; nested folders
    // belong to their class. Throws DataError for another layout and for a class without images.
    explicit ImageFolder(const std::filesystem::path& root);

    std::int64_t size() const override { return index_.size(); }
    void read(std::int64_t index, Sample& sample) const override;
    // The path within the root, such as "cat/001.jpg".
    std::string key(std::int64_t index) const override { return std::string(name(index)); }
    // While readers have to wait for files, threads bring the announced files into the page cache.
    void prefetch(std::span<const std::int64_t> indices) const override;
    std::optional<std::int64_t> label(std::int64_t index) const override;
    std::span<const std::string> classes() const override { return index_.classes(); }
    std::string_view format() const override { return "image_folder"; }
    std::string path() const override { return root_; }
    // Costs one system call for each sample, for the file's size.
    std::int64_t bytes() const override;
    // Counts the images of unsupported types (.tif, .gif, ...) that were left out.
    std::string advice() const override;

  private:
    std::string_view name(std::int64_t index) const;

    std::string root_;
    FolderIndex index_;
    Folder folder_;
    mutable FilePrefetcher prefetcher_;  // last: its threads use the members above
};

// Images without labels, for `stoker predict`: one file, or the files directly in a folder, sorted by name.
class ImageFileList final : public Dataset {
  public:
    // True for a file with the name of an image, and for a folder of images without subfolders.
    static bool holds(const std::filesystem::path& path);

    // Throws IoError, and DataError for a folder without images.
    explicit ImageFileList(const std::filesystem::path& path);

    std::int64_t size() const override { return static_cast<std::int64_t>(names_.size()); }
    void read(std::int64_t index, Sample& sample) const override;
    // The file name.
    std::string key(std::int64_t index) const override { return names_.at(static_cast<std::size_t>(index)); }
    std::string_view format() const override { return "image_files"; }
    std::string path() const override { return path_; }

  private:
    std::string path_;
    std::vector<std::string> names_;  // sorted bytewise
    Folder folder_;
};

}  // namespace stoker

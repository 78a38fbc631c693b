// A folder of image files with one subfolder for each class. Classes, labels and order are those of torchvision's
// ImageFolder, so index i is the same image in both. Two differences: hidden names (image_kind.h) are skipped, and
// folders of .npy files, which torchvision does not read, are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/file.h"
#include "stoker/formats/dataset.h"
#include "stoker/formats/file_prefetcher.h"
#include "stoker/formats/folder/clip_files.h"
#include "stoker/formats/folder/folder_index.h"

namespace stoker {

class LeftOut;

class ImageFolder final : public Dataset {
  public:
    // Lists the files without opening any, or uses the cached listing (folder_index.h). Follows links; nested folders
    // belong to their class. `clips`: a sample is a folder of frames within its class, in the order of the numbers in
    // their names, or a video, a .npy or a TIFF file. Throws DataError for another layout and for a class without
    // images.
    explicit ImageFolder(const std::filesystem::path& root, bool clips = false);

    std::int64_t size() const override { return clips_ ? clips_->size() : index_.size(); }
    void read(std::int64_t index, Sample& sample) const override;
    // The path within the root, such as "cat/001.jpg", or of a clip's folder.
    std::string key(std::int64_t index) const override;
    // While readers have to wait for files, threads bring the announced files into the page cache.
    void prefetch(std::span<const std::int64_t> indices) const override;
    std::optional<std::int64_t> label(std::int64_t index) const override;
    std::span<const std::string> classes() const override { return index_.classes(); }
    std::string_view format() const override { return "image_folder"; }
    std::string path() const override { return root_; }
    // Costs one system call for each sample, for the file's size.
    std::int64_t bytes() const override;
    // Counts the images that are left out: outside the class folders, or of unsupported types (.svg, .psd, ...).
    std::string advice() const override;  // of a single class also the table that may have the labels

  private:
    void read_file(std::int64_t file, FieldValue& value) const;

    std::string root_;
    FolderIndex index_;
    std::optional<ClipFiles> clips_;
    Folder folder_;
    mutable FilePrefetcher prefetcher_;  // last: its threads use the members above
};

// Images without labels, for `stoker predict`: files, and all images in folders and their subfolders.
class ImageFileList final : public Dataset {
  public:
    // In the order of `paths`; in a folder first its own images, sorted by name, then those of its subfolders in the
    // order of ImageFolder. Throws IoError for a path that cannot be read, and DataError if no images are found.
    // `clips`: as for ImageFolder, but a folder of frames may be anywhere.
    explicit ImageFileList(std::vector<std::string> paths, bool clips = false);

    std::int64_t size() const override { return clips_ ? clips_->size() : std::ssize(names_); }
    void read(std::int64_t index, Sample& sample) const override;
    // The path of the file: within the folder if that is the only path, otherwise as given.
    std::string key(std::int64_t index) const override;
    void prefetch(std::span<const std::int64_t> indices) const override;
    std::string_view format() const override { return "image_files"; }
    // The first path; "scans and 2 more".
    std::string path() const override;
    // Counts the files that are left out: images of unsupported types, and given files that are not images.
    std::string advice() const override { return left_out_; }

  private:
    void add_folder(const std::string& path, std::vector<bool>& alone, LeftOut& left_out);
    void read_file(std::int64_t file, FieldValue& value) const;

    std::vector<std::string> paths_;
    std::vector<std::string> names_;  // relative to folder_
    std::optional<ClipFiles> clips_;
    std::string left_out_;
    Folder folder_;                      // the only path, or the working directory
    mutable FilePrefetcher prefetcher_;  // last: its threads use the members above
};

}  // namespace stoker

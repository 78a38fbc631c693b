// A folder of image files, one subfolder a class: classes, labels and order are exactly those of
// torchvision's ImageFolder, so index i means the same image in both. Two differences: files and folders
// whose names begin with "." are skipped, and TIFF, which no codec reads, is left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "stoker/base/file.h"
#include "stoker/formats/dataset.h"
#include "stoker/formats/folder/folder_ahead.h"
#include "stoker/formats/folder/folder_index.h"

namespace stoker {

class ImageFolder final : public Dataset {
  public:
    // Lists the files, without opening or measuring any, or takes the listing of an earlier start (folder_index.h);
    // follows links, nested folders belong to their class. Throws DataError where the layout is another one or a class
    // has no image.
    explicit ImageFolder(const std::filesystem::path& root);

    std::int64_t size() const override { return index_.size(); }
    void read(std::int64_t index, Sample& sample) const override;
    // The path within the root, as "cat/001.jpg".
    std::string key(std::int64_t index) const override { return std::string(name(index)); }
    // Files that are not in memory are fetched by threads, as long as readers have to wait for some.
    void prefetch(std::span<const std::int64_t> indices) const override;
    std::optional<std::int64_t> label(std::int64_t index) const override;
    std::span<const std::string> classes() const override { return index_.classes(); }
    std::string_view format() const override { return "image_folder"; }
    std::string path() const override { return root_; }
    // Asks the system for each file's size, so it costs a call a sample.
    std::int64_t bytes() const override;
    // Names the files of the classes that are images of types that are not read (.tif, .gif, ...).
    std::string advice() const override;

  private:
    std::int64_t checked(std::int64_t index) const;
    std::string_view name(std::int64_t index) const;

    std::string root_;
    FolderIndex index_;
    Folder folder_;
    mutable FolderAhead ahead_;  // last: its threads use the others
};

}  // namespace stoker

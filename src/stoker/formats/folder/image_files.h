// Images without labels, for `stoker predict`: one file, or the files directly in a folder, sorted by name.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "stoker/base/file.h"
#include "stoker/formats/dataset.h"

namespace stoker {

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

// Images with a second file for each: a mask of classes, or another image. The files are in parallel folders, such as
// images/a/1.jpg and masks/a/1.png, and belong together by their names without the ending.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/dataset.h"
#include "stoker/formats/sample_files.h"

namespace stoker {

// True for a folder with the subfolder images and one of masks, annotations and labels.
bool is_paired_folder(const std::string& path);

// True if `fields` names the subfolders: one of images and one for each further field.
bool names_paired_folders(const std::string& path, const FieldNames& fields);

// True if the folder of images has a subfolder of each split: train or training, and val, validation, test or
// testing. `images`: its name; empty: images.
bool paired_folder_has_splits(const std::string& path, const std::string& images = "");

class PairedFolder final : public Dataset {
  public:
    // Lists the folders without opening files. `fields.image` is the folder of images (default: images). Without
    // `fields.more` there is one field, `mask`. A field's `from` is its folder; the default is the folder of its name,
    // and for a mask masks, annotations or labels. Masks are PNG files, whose grey levels or palette indices
    // are the classes. Throws DataError if a folder has no such files, or none with an image's name; Unsupported for
    // fields of other kinds.
    PairedFolder(const std::string& path, Split split, const FieldNames& fields = {});

    std::int64_t size() const override { return files_.size(); }
    // Throws DataError for an image without a file of the other folder.
    void read(std::int64_t index, Sample& sample) const override;
    std::span<const Field> fields() const override { return fields_; }
    // The image's path within the data, such as "images/a/1.jpg".
    std::string key(std::int64_t index) const override;
    void prefetch(std::span<const std::int64_t> indices) const override { files_.prefetch(indices); }
    std::optional<std::int64_t> label(std::int64_t /*index*/) const override { return -1; }
    // From classes.txt in the data's folder, a name on each line.
    std::span<const std::string> classes() const override { return classes_; }
    std::string_view format() const override { return "paired_folder"; }
    // The path of the folder of images, of the split.
    std::string image_folder() const;
    std::string path() const override { return path_; }
    // Counts the images without a mask.
    std::string advice() const override { return advice_; }
    std::int64_t bytes() const override { return files_.bytes(); }

  private:
    void add_folder(std::size_t column, Split split);

    std::string path_;
    std::vector<Field> fields_;
    std::string images_;                // the folder of the images within path_
    std::vector<std::string> folders_;  // of the fields
    std::vector<std::string> classes_;
    std::string advice_;
    SampleFiles files_;  // the images, then a column for each field
};

}  // namespace stoker

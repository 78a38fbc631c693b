// Files of a listing as clips: a folder of frames is one, and so is a video, an array or a TIFF of several pages.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/dataset.h"

namespace stoker {

class ClipFiles {
  public:
    using Name = std::function<std::string_view(std::int64_t file)>;

    // `name` gives the path of each of `files`, within the root; those of a folder follow each other. Frames are in the
    // order of the numbers in their names. `by_class`: the folders above all others are classes, which hold no frames
    // themselves. Throws DataError for an image in such a folder.
    ClipFiles(std::int64_t files, Name name, bool by_class);

    std::int64_t size() const { return static_cast<std::int64_t>(begins_.size()) - 1; }
    // In the order in which the frames are shown.
    std::span<const std::int64_t> files(std::int64_t clip) const;
    // The path of the folder, or of the file.
    std::string key(std::int64_t clip) const;
    // `read` makes a value of a file.
    void read(std::int64_t clip, Sample& sample,
              const std::function<void(std::int64_t file, FieldValue& value)>& read) const;

  private:
    bool is_one_file(std::int64_t clip) const;

    Name name_;
    std::vector<std::int64_t> files_;
    std::vector<std::int64_t> begins_ = {0};  // of each clip's, in files_
};

}  // namespace stoker

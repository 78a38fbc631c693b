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

// True for the name of a video or an array; with `volumes` also of a TIFF, which may have several pages.
bool is_clip_file(std::string_view name, bool volumes);

class ClipFiles {
  public:
    using Name = std::function<std::string_view(std::int64_t file)>;

    // `name` gives the path of each of `files`, within the root; those of a folder follow each other. `alone` tells
    // whether a file is a sample and not a frame. Frames are in the order of the numbers in their names.
    ClipFiles(std::int64_t files, Name name, const std::function<bool(std::int64_t file)>& alone);

    std::int64_t size() const { return static_cast<std::int64_t>(begins_.size()) - 1; }
    // In the order in which the frames are shown.
    std::span<const std::int64_t> files(std::int64_t clip) const;
    // The path of the folder, or of the file.
    std::string key(std::int64_t clip) const;
    // `read` makes a value of a file.
    void read(std::int64_t clip, Sample& sample,
              const std::function<void(std::int64_t file, FieldValue& value)>& read) const;

  private:
    Name name_;
    std::vector<std::int64_t> files_;
    std::vector<std::int64_t> begins_ = {0};  // of each clip's, in files_
    std::vector<bool> alone_;                 // each clip is one file that is not a frame
};

}  // namespace stoker

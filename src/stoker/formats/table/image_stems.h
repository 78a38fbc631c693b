// Finds image files by their names without endings, as in tables of competitions: the id 0a1b is train/0a1b.jpg.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

namespace stoker {

class ImageStems {
  public:
    // Lists the images in the folder and its sub-folders, and in folders that links lead to. Throws IoError.
    explicit ImageStems(const std::string& folder);

    // The path, from the folder, of the only image called `name` with an ending, or lying at that path. Empty if there
    // is none. Throws DataError where there are several.
    std::string_view find(std::string_view name) const;

  private:
    struct Found {
        std::string path;
        std::string other;  // a second one
    };
    std::unordered_map<std::string, Found> by_stem_;  // and by the whole path without the ending
};

}  // namespace stoker

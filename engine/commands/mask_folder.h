// Writes predicted masks as PNG files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "stoker/train/run/predict.h"

namespace stoker::cli {

class MaskFolder {
  public:
    // Throws InvalidArgument for no name or the name of a file.
    static void check(const std::string& folder);

    // Throws IoError if the folder cannot be written.
    explicit MaskFolder(std::filesystem::path folder);

    // Writes <folder>/<key>.png, without the key's own ending, or <key>-2.png if an earlier prediction has that name:
    // keys such as a/1.jpg and a/1.png give the same. Skips a prediction with an error. Throws IoError.
    void write(const Prediction& prediction);

    std::int64_t numbered() const { return numbered_; }  // the files with such a number

  private:
    std::filesystem::path free_name(const std::string& key);

    std::filesystem::path folder_;
    std::unordered_set<std::uint64_t> written_;               // hashes of paths
    std::unordered_map<std::uint64_t, std::int64_t> number_;  // of the last file, by the hash of its path without one
    std::int64_t numbered_ = 0;
};

}  // namespace stoker::cli

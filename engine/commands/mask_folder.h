// Writes predicted masks as grey PNG files, a class for each pixel.
#pragma once

#include <filesystem>

#include "stoker/train/run/predict.h"

namespace stoker::cli {

class MaskFolder {
  public:
    // Throws IoError if the folder cannot be written.
    explicit MaskFolder(std::filesystem::path folder);

    // Writes <folder>/<key>.png; a prediction with an error has no file. Throws IoError.
    void write(const Prediction& prediction) const;

  private:
    std::filesystem::path folder_;
};

}  // namespace stoker::cli

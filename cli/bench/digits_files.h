// Digits as MNIST's IDX files: what `stoker synth` makes and what the ladder's peer reads.
#pragma once

#include <filesystem>

#include "cli/terminal/progress.h"
#include "stoker/formats/open.h"

namespace stoker::cli {

// Writes all of `dataset`, raw images of one size, as the images and labels of one split, gzip-packed where
// asked for. Throws Interrupted after a signal, and what reading and writing throw.
void write_digits(const Dataset& dataset, Split split, const std::filesystem::path& folder, bool gzip,
                  ProgressBar& progress);

}  // namespace stoker::cli
